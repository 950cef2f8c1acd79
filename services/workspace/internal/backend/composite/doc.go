// Package composite is a store that keeps the paths of a space in several other stores: the longest prefix of a path that is routed says in which.
//
// Every store keeps its files under their whole paths; of what it holds, only what it owns by the routes is seen. Reads are merged: a directory is there when a store has a
// file below it that it owns. A store that fails makes the call fail, so that incomplete never looks like empty.
//
// An update changes one store. It runs within an update of the default store, which lets one update of a space in at a time, and when what it writes belongs to another
// store, within an update of that one too: that one alone commits, with the record of the effect. An update that would write to two stores is refused with
// [files.ErrAcross] before anything is written; [files.View] then goes in steps that are safe to repeat.
//
// Stored templates are replaced as a whole, so they are kept in the default store whatever the routes.
package composite
