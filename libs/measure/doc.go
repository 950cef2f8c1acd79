// Package measure is what the commands that measure have in common: they run parts by name, say how it goes on, and print a [figures.Report] as the last line.
// What is compared is measured in turns, since machines differ and other work disturbs both alike.
package measure
