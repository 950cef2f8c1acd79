// Package manifesttest is the suite of what package manifest promises of several replicas over one driver, beyond the suite of the port.
package manifesttest
