// Package openapi holds the OpenAPI 2.0 description of the REST interface, generated from the protos.
package openapi

import _ "embed"

// JSON is the description of every RPC that clients may call.
//
//go:embed gantry.swagger.json
var JSON []byte
