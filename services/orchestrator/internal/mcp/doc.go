// Package mcp gives runs the tools of MCP servers, which an agent's definition names.
//
// A [Pool] holds the connections. A connection belongs to what the server was declared as, with all variables resolved, and to the tenant and agent; where
// the declaration says something of the user, to the user as well. So nobody's call travels over a connection that was opened with another's headers.
//
// Servers are strangers: what they list and answer is bounded, a server that can't be used takes nothing from the run but its tools, and a call without an
// answer has an unknown outcome. No call is sent a second time under one effect id, unless the server refused the first or never got it.
package mcp
