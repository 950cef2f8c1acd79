package offline

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// litKind says how a literal was written.
type litKind uint8

const (
	litQuoted litKind = iota // between quotation marks
	litCode                  // between backticks
	litFence                 // a fenced block
	litPath                  // a bare word that looks like a path, or a pattern of paths
	litURL
	litJSON // a balanced JSON object or list
	litRaw  // a rune of the private use area that was in the text already
)

// literal is a part of an instruction that is taken as it is and never read as words of the language.
type literal struct {
	kind litKind
	text string // without the marks
	raw  string // as it was written
}

// Literals are replaced by single runes of the private use area, so that the grammar can be written as regular
// expressions over short words and no text between quotes can be mistaken for an instruction.
const (
	firstMark   = '\uE000'
	maxLiterals = 0x1800 // the area ends at U+F8FF; what comes later stays in plain words
)

// masked is an instruction with its literals taken out.
type masked struct {
	text     string
	literals []literal
}

// unmask gives back what was written.
func (m *masked) unmask(s string) string {
	return m.expand(s, func(l literal) string { return l.raw })
}

// value gives the text of a slot: a literal alone loses its marks, anything else stays as it was written.
func (m *masked) value(s string) string {
	s = strings.TrimSpace(s)
	if l, ok := m.only(s); ok {
		return l.text
	}
	return m.unmask(s)
}

// only finds the literal when s is nothing but one.
func (m *masked) only(s string) (literal, bool) {
	r, size := utf8.DecodeRuneInString(s)
	if size != len(s) {
		return literal{}, false
	}
	return m.at(r)
}

func (m *masked) at(r rune) (literal, bool) {
	i := int(r - firstMark)
	if r < firstMark || i >= len(m.literals) {
		return literal{}, false
	}
	return m.literals[i], true
}

func (m *masked) expand(s string, of func(literal) string) string {
	var b strings.Builder
	for _, r := range s {
		if l, ok := m.at(r); ok {
			b.WriteString(of(l))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// closers holds the closing mark of each opening one that is unlike the ASCII quotes.
var closers = map[rune]string{'“': "”", '„': "“”", '«': "»", '‘': "’", '「': "」", '『': "』", '《': "》"}

var (
	fenceRE = regexp.MustCompile("^(```+|~~~+)[^\n`]*\n(?s:(.*?))(?:^|\n)?(?:```+|~~~+)[ \t]*(?:\n|$)")
	urlRE   = regexp.MustCompile(`^https?://[^\s<>"'，。；]+`)
	// A bare path has a slash inside, an extension, a pattern character or a well-known name.
	wordRE  = regexp.MustCompile(`^[\p{L}\p{N}_.@+*?~/\\%#=\[\]{},-]+`)
	pathRE  = regexp.MustCompile(`^(?:[^/]*/)+[^/]*$|^[^/]*\.[A-Za-z][A-Za-z0-9]{0,9}$|^\.[A-Za-z][\w.-]+$|\*`)
	knownRE = regexp.MustCompile(`^(?:Makefile|Dockerfile|LICENSE|README|CHANGELOG|NOTICE|CODEOWNERS)$`)
	// Words of the grammar that show that a run of Han characters is more than a name.
	zhGrammar = regexp.MustCompile(`[把将请在到入为读写的里中并让从给和与用打查看删运执记]`)
	notPath   = regexp.MustCompile(`^(?i:e\.g|i\.e|z\.b|d\.h|u\.a|and/or|und/oder|he/she|yes/no|/+|\*+)$`)
)

// mask takes the literals out of an instruction.
func mask(text string) *masked {
	m := &masked{}
	var b strings.Builder
	prev := ' '
	put := func(l literal) {
		if len(m.literals) >= maxLiterals {
			b.WriteString(l.raw)
			return
		}
		b.WriteRune(firstMark + rune(len(m.literals)))
		m.literals = append(m.literals, l)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		l, rest, ok := scan(text, r, prev)
		if !ok {
			b.WriteRune(r)
			text, prev = text[size:], r
			continue
		}
		put(l)
		prev, _ = utf8.DecodeLastRuneInString(l.raw)
		text = rest
	}
	m.text = namedFile.ReplaceAllStringFunc(b.String(), func(s string) string {
		g := namedFile.FindStringSubmatch(s)
		if noName.MatchString(g[2]) || len(m.literals) >= maxLiterals {
			return s
		}
		m.literals = append(m.literals, literal{litPath, g[2], g[2]})
		return g[1] + string(firstMark+rune(len(m.literals)-1))
	})
	return m
}

// A bare word after "file" is a path as well, unless it is a word that goes on with the sentence.
var (
	namedFile = regexp.MustCompile(`(?i)(\b(?:file|folder|directory|datei|ordner|verzeichnis)(?: called| named| namens)? )([A-Za-z0-9_-]+)\b`)
	noName    = regexp.MustCompile(`(?i)^(?:says?|contains?|containing|has|have|having|is|are|was|which|that|this|matching|ending|with|of|for|from|on|in|into|at|by|to|it|there|here|now|again|please|then|as|under|and|or|named|called|auf|an|aus|und|mit|vor|um|so|but|list|tree|system|dann|bitte|wieder|noch|danach|namens|unter|von|zu)$`)
)

// scan reads the literal at the start of text, if there is one. prev is the rune before it.
func scan(text string, r, prev rune) (literal, string, bool) {
	switch {
	case r >= firstMark && r <= '\uF8FF':
		n := utf8.RuneLen(r)
		return literal{litRaw, text[:n], text[:n]}, text[n:], true
	case strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~"):
		return scanFence(text)
	case r == '`':
		return scanCode(text)
	case r == '"':
		return scanDouble(text)
	case r == '\'':
		return scanSingle(text, prev)
	case closers[r] != "":
		return scanPair(text, r)
	case r == '{' || r == '[':
		return scanJSON(text)
	case isWord(prev):
		return literal{}, "", false
	}
	return scanWord(text, prev)
}

func scanFence(text string) (literal, string, bool) {
	loc := fenceRE.FindStringSubmatchIndex(text)
	if loc == nil {
		return literal{}, "", false
	}
	raw := text[:loc[1]]
	rest := text[loc[1]:]
	if strings.HasSuffix(raw, "\n") { // the line break belongs to the instruction
		raw, rest = raw[:len(raw)-1], "\n"+rest
	}
	body := text[loc[4]:loc[5]]
	if body != "" && !strings.HasSuffix(body, "\n") {
		body += "\n" // a file that is written from a block ends in a line break
	}
	return literal{litFence, body, raw}, rest, true
}

func scanCode(text string) (literal, string, bool) {
	n := len(text) - len(strings.TrimLeft(text, "`"))
	marks := text[:n]
	end := strings.Index(text[n:], marks)
	if end <= 0 {
		return literal{}, "", false
	}
	body := text[n : n+end]
	if n > 1 { // two backticks allow one inside, and a blank beside it
		body = strings.TrimSuffix(strings.TrimPrefix(body, " "), " ")
	}
	return literal{litCode, body, text[:n+end+n]}, text[n+end+n:], true
}

// scanDouble reads an ASCII double quote, in which \" \\ \n and \t are escapes.
func scanDouble(text string) (literal, string, bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return literal{litQuoted, b.String(), text[:i+1]}, text[i+1:], i > 1
		case '\\':
			if i+1 < len(text) {
				if c, ok := map[byte]byte{'"': '"', '\\': '\\', 'n': '\n', 't': '\t'}[text[i+1]]; ok {
					b.WriteByte(c)
					i++
					continue
				}
			}
			b.WriteByte('\\')
		default:
			b.WriteByte(text[i])
		}
	}
	return literal{}, "", false
}

// scanSingle reads an ASCII single quote; an apostrophe inside a word is none.
func scanSingle(text string, prev rune) (literal, string, bool) {
	if isWord(prev) || len(text) < 3 || text[1] == ' ' {
		return literal{}, "", false
	}
	for i := 2; i < len(text); i++ {
		if text[i] != '\'' {
			continue
		}
		next, _ := utf8.DecodeRuneInString(text[i+1:])
		if i+1 == len(text) || !isWord(next) || isCJK(next) {
			return literal{litQuoted, text[1:i], text[:i+1]}, text[i+1:], true
		}
	}
	return literal{}, "", false
}

func scanPair(text string, open rune) (literal, string, bool) {
	n := utf8.RuneLen(open)
	end := strings.IndexAny(text[n:], closers[open])
	if end <= 0 {
		return literal{}, "", false
	}
	_, size := utf8.DecodeRuneInString(text[n+end:])
	return literal{litQuoted, text[n : n+end], text[:n+end+size]}, text[n+end+size:], true
}

// maxJSON bounds the text that is tried as JSON, so that many open braces stay cheap.
const maxJSON = 64 << 10

func scanJSON(text string) (literal, string, bool) {
	dec := json.NewDecoder(strings.NewReader(text[:min(len(text), maxJSON)]))
	var raw json.RawMessage
	if dec.Decode(&raw) != nil {
		return literal{}, "", false
	}
	end := int(dec.InputOffset())
	return literal{litJSON, string(raw), text[:end]}, text[end:], true
}

func scanWord(text string, prev rune) (literal, string, bool) {
	if url := strings.TrimRight(urlRE.FindString(text), ".,;:!?)"); url != "" {
		return literal{litURL, url, url}, text[len(url):], true
	}
	word := wordRE.FindString(text)
	if r, _ := utf8.DecodeRuneInString(word); isCJK(r) {
		// In a sentence without blanks nobody can tell where the name begins: only a name that stands alone is one.
		if prev != ' ' && prev != '\n' && prev != ':' && prev != '：' || zhGrammar.MatchString(word) {
			return literal{}, "", false
		}
	} else if i := strings.IndexFunc(word, isCJK); i > 0 {
		word = word[:i]
	}
	if i := strings.IndexByte(word, ','); i >= 0 && !strings.Contains(word, "{") {
		word = word[:i]
	}
	word = strings.TrimRight(word, ".,?")
	if word == "" || notPath.MatchString(word) || !pathRE.MatchString(word) && !knownRE.MatchString(word) {
		return literal{}, "", false
	}
	return literal{litPath, word, word}, text[len(word):], true
}

func isWord(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_') && !isCJK(r)
}

func isCJK(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r >= 0x3000 && r <= 0x303F || r >= 0xFF00 && r <= 0xFFEF
}
