// Package postgres keeps buckets in PostgreSQL: the shared store of many replicas.
//
// Updates of one space take turns by a lock on its row; updates of different spaces run side by side. Keys are COLLATE "C", so that their order is that of bytes. Replicas see
// each other's writes with the next read; who waits for changes looks again several times a second.
package postgres
