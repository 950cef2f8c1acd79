// Package gateway serves Gantry over HTTP: every RPC that a client may call as REST and JSON, streams as NDJSON or as
// server-sent events, and the OpenAPI page.
//
// It holds no state and decides nothing: identity headers and the credential travel on as they came, and the service that
// acts checks them. What it adds is what browsers make necessary: no page of another origin may call it unless the operator
// says so, and no name but its own reaches it (a web page could otherwise point its own name at the loopback address).
package gateway
