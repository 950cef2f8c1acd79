// Package bleveindex keeps indexes with Bleve, on disk or in memory.
//
// Terms are made by package text; Bleve gets them ready, one field a kind of term, and only splits them at spaces. So text and queries are
// always cut alike, and no query is ever parsed by Bleve.
//
// On disk, an index is one directory. Bleve maps its segments into memory and trusts them, so their checksums are verified when the index is opened; a fault that
// shows up later is caught and reported as damage. A batch
// is on disk when Apply returns: documents and the revisions of their sources become durable together.
package bleveindex
