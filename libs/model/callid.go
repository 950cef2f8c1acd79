package model

import (
	"crypto/rand"
	"encoding/hex"
)

// NewCallID makes the id of a tool call for providers whose servers give none: "call_" and 16 random hexadecimal digits.
func NewCallID() string {
	var b [8]byte
	// crypto/rand never fails on the systems that Go supports.
	_, _ = rand.Read(b[:])
	return "call_" + hex.EncodeToString(b[:])
}
