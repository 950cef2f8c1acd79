// Package faults tests what every backend does with hostile input and when the machine below it fails: full disks, frozen and cut connections, links that change
// under its feet, names that are meant to break out. The outcome is a typed error or success; never half a file, never a byte of another space.
package faults
