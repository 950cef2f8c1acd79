// Package memory is the logic of remembering: ledgers, provenance, search, extraction and consolidation, over ports for files, threads, index and model.
//
// The words: a ledger is the file of one day, memory/YYYY-MM-DD.md, to which is only ever appended; a fact is one statement in a memory file; its
// record says where it comes from and is kept in a file of its own (memory/.provenance/), found by the hash of the statement; a statement without a record was
// written by somebody outside. MEMORY.md is what is worth reading at every call; consolidation keeps it, in sections of its own, beside what people write there.
//
// Order of writing makes every line resolve at any moment: records go first, then the lines that they are about, then the watermark that says that a ledger was
// consolidated. A crash in between leaves a record without a line, or a line that is merged again and found to be there already.
package memory
