// Package searchtest tests searches: it makes trees of files, compares what a store finds in them with ripgrep line for line, and measures both.
package searchtest
