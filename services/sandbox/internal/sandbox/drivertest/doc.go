// Package drivertest is the suite for [sandbox.Driver]. Every driver passes it; what differs between drivers is declared in their capabilities, and the
// suite then tests that the undeclared operation is refused.
//
// It runs commands for real and looks at the processes of the host, so a driver that leaves one behind fails.
package drivertest
