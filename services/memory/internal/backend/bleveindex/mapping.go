package bleveindex

import (
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/mapping"
	indexapi "github.com/blevesearch/bleve_index_api"
)

// The fields of a document in Bleve.
const (
	fieldWords    = "words"
	fieldStems    = "stems"
	fieldSingles  = "singles"
	fieldPairs    = "pairs"
	fieldCode     = "code"
	fieldHeading  = "heading"
	fieldKind     = "kind"
	fieldFactKind = "fact_kind"
	fieldTrust    = "trust"
	fieldSource   = "source"
	fieldSession  = "session"
	fieldSpeaker  = "speaker"
	fieldFactID   = "fact_id"
	fieldHash     = "hash"
	fieldTime     = "time"
	fieldDoc      = "doc"   // the whole document, stored only
	fieldState    = "state" // of a source, stored only
	fieldName     = "name"  // of a source

	// mappingVersion is part of the directory: an index of another mapping is never opened.
	mappingVersion = "v1"
	termsAnalyzer  = "terms"
)

// newMapping declares every field; what is not declared is not indexed.
func newMapping() (mapping.IndexMapping, error) {
	m := mapping.NewIndexMapping()
	m.ScoringModel = indexapi.BM25Scoring
	m.StoreDynamic, m.IndexDynamic, m.DocValuesDynamic = false, false, false
	err := m.AddCustomAnalyzer(termsAnalyzer, map[string]any{"type": custom.Name, "tokenizer": whitespace.Name})
	if err != nil {
		return nil, err
	}
	doc := mapping.NewDocumentStaticMapping()
	// Phrases need positions, which Bleve keeps as term vectors.
	for field, positions := range map[string]bool{
		fieldWords: true, fieldPairs: true, fieldStems: false, fieldSingles: false, fieldCode: false, fieldHeading: false,
	} {
		doc.AddFieldMappingsAt(field, textField(termsAnalyzer, positions))
	}
	for _, field := range []string{
		fieldKind, fieldFactKind, fieldTrust, fieldSource, fieldSession, fieldSpeaker, fieldFactID, fieldHash, fieldName,
	} {
		f := textField(keyword.Name, false)
		f.SkipFreqNorm = true
		doc.AddFieldMappingsAt(field, f)
	}
	when := mapping.NewNumericFieldMapping()
	when.Store, when.IncludeInAll, when.DocValues = false, false, false
	doc.AddFieldMappingsAt(fieldTime, when)
	for _, field := range []string{fieldDoc, fieldState} {
		stored := mapping.NewTextFieldMapping()
		stored.Index, stored.Store, stored.IncludeTermVectors, stored.IncludeInAll, stored.DocValues = false, true, false, false, false
		doc.AddFieldMappingsAt(field, stored)
	}
	m.DefaultMapping = doc
	return m, nil
}

func textField(analyzer string, positions bool) *mapping.FieldMapping {
	f := mapping.NewTextFieldMapping()
	f.Analyzer = analyzer
	f.Store, f.IncludeInAll, f.DocValues, f.IncludeTermVectors = false, false, false, positions
	return f
}
