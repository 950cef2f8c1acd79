package sqlstore

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// fewKeys is the number of keys up to which a statement has a parameter for each: a path and the directories above it. The database then plans it once and looks each up.
const fewKeys = 8

// keyed is a statement that looks up nodes by their keys, in a form for each number of keys up to fewKeys and one for more.
type keyed struct {
	before string // ends before the condition on n.key
	first  int    // number of the parameter that follows those of before
	few    [fewKeys + 1]string
}

func newKeyed(before string, first int) *keyed {
	k := &keyed{before: before, first: first}
	for n := 1; n <= fewKeys; n++ {
		parameters := make([]string, n)
		for i := range parameters {
			parameters[i] = "?" + strconv.Itoa(first+i)
		}
		k.few[n] = before + "n.key IN (" + strings.Join(parameters, ", ") + ")"
	}
	return k
}

// with returns the statement and its arguments.
func (k *keyed) with(d Dialect, keys []string, args ...any) (string, []any) {
	if len(keys) > fewKeys {
		return k.before + "n.key " + d.InTexts("?"+strconv.Itoa(k.first)), append(args, d.Texts(keys))
	}
	for _, key := range keys {
		args = append(args, key)
	}
	return k.few[len(keys)], args
}

// holds says whether a database may hold a key: names in UTF-8 only.
func holds(key string) bool { return utf8.ValidString(key) }

var (
	getNodes = newKeyed(`SELECT `+nodeColumns+` FROM nodes n WHERE `+ofSpace+` AND `, 2)
	getOpen  = newKeyed(`SELECT `+nodeColumns+`, c.data FROM nodes n LEFT JOIN chunks c ON c.content_id = n.content_id AND c.start = 0 AND n.key = ?2 AND n.size <= ?3
		WHERE `+ofSpace+` AND `, 4)
	getPasts = newKeyed(`SELECT `+pastColumnsOf+` FROM nodes n WHERE `+ofSpace+` AND `, 2)
)
