package searchtest

import (
	"strings"
	"unicode/utf16"
)

// Nasty returns files that searches get wrong: of odd names, encodings and line ends, over-long lines, and places that are hidden or excluded.
func Nasty() map[string]string {
	files := map[string]string{
		"plain.txt":                     "one\nneedle two\nthree Needle\n\nneedle needle\nlast needle",
		"empty":                         "",
		"one line break":                "\n",
		"crlf.txt":                      "first needle\r\nsecond\r\n\r\nneedle at the end\r\n",
		"cr.txt":                        "old\rneedle\rlines\n",
		"bom.txt":                       "\uFEFFneedle first\nneedle second\n",
		"utf16.txt":                     utf16Text("needle in UTF-16\n"),
		"wrong bytes.txt":               "a\xff\xfeneedle\xc3\nneedle \xf0\x9f\n",
		"early nul.bin":                 "needle\x00needle\n",
		"late nul.txt":                  strings.Repeat("filler\n", 2000) + "needle\nx\x00y needle\nneedle\n",
		"unicode/보고서 é.md":              "Das ist der Schlüssel: needle\n보고서 needle 보고서\nÜBER über\n",
		"case/Readme.md":                "needle in Readme\n",
		"case/README.md":                "needle in README\n",
		"names/a:b 'c' \"d\".txt":       "needle: 12\n",
		"names/[x]{y}*?.txt":            "needle\n",
		"names/percent%_under.txt":      "needle\n",
		".hidden.txt":                   "needle hidden\n",
		".config/deep/settings.json":    "{\"needle\": 555-1234}\n",
		".git/config":                   "needle in git\n",
		".gitignore":                    "# needle in a comment\n*.log\n!keep.log\n/build/\nnode_modules/\ndocs/*.tmp\n\\#hash\ntrailing \nfoo/**/bar.txt\n",
		"app.log":                       "needle ignored\n",
		"keep.log":                      "needle kept\n",
		"build/out.txt":                 "needle ignored\n",
		"src/build/out.txt":             "needle not ignored\n",
		"src/node_modules/m/index.js":   "needle ignored\n",
		"docs/a.tmp":                    "needle ignored\n",
		"docs/sub/a.tmp":                "needle not ignored\n",
		"#hash":                         "needle ignored\n",
		"trailing":                      "needle ignored\n",
		"foo/bar.txt":                   "needle ignored\n",
		"foo/a/b/bar.txt":               "needle ignored\n",
		"foo/a/b/baz.txt":               "needle\n",
		"src/.gitignore":                "!debug.log\ngenerated*\n!generated_keep.go\n",
		"src/debug.log":                 "needle kept below\n",
		"src/other.log":                 "needle ignored\n",
		"src/generated.go":              "needle ignored\n",
		"src/generated_keep.go":         "needle kept\n",
		"src/deep/.gitignore":           "*\n!*.go\n!.gitignore\n",
		"src/deep/a.go":                 "package deep // needle\n",
		"src/deep/a.txt":                "needle ignored\n",
		"src/main.go":                   "package main\n\nfunc main() {\n\tneedle()\n\thaystack(555-1234)\n}\n",
		"src.go":                        "needle beside the directory\n",
		"src-x/y.go":                    "needle\n",
		"many.txt":                      strings.Repeat("needle x\ny\n", 500),
		"long line.txt":                 strings.Repeat("é1234567", 700_000) + "needle" + strings.Repeat("z", 100_000) + "\nneedle after\n",
		"dense/kelvin.txt":              "\u212Aelvin and long \u017F\nkelvin\n",
		"deep/1/2/3/4/5/6/7/8/9/10.txt": "needle\n",
	}
	files["big.txt"] = strings.Repeat("a line of filler that says nothing\n", 60_000) + "needle at the end of 2 MB\n"
	return files
}

func utf16Text(text string) string {
	out := []byte{0xFF, 0xFE}
	for _, u := range utf16.Encode([]rune(text)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

// Question is a search that both are asked.
type Question struct {
	Pattern           string
	Regex, IgnoreCase bool
	Before, After     int
	Path, Glob        string
	Ignored           bool
}

// Questions are asked over [Nasty].
//
// They leave out where the searches differ on purpose. Patterns beyond ASCII and expressions are compared in NFC here; "\w" and the like are ASCII only; UTF-16 is binary; a
// file is binary by a NUL in its first 8 KiB only; a glob does not bring back what .gitignore excludes.
var Questions = []Question{
	{Pattern: "needle"},
	{Pattern: "needle", Before: 2, After: 1},
	{Pattern: "NEEDLE", IgnoreCase: true},
	{Pattern: "needle", Ignored: true},
	{Pattern: "^needle", Regex: true},
	{Pattern: "needle$", Regex: true, After: 3},
	{Pattern: "needle.*needle", Regex: true},
	{Pattern: "ne+dle|haystack", Regex: true},
	{Pattern: "[0-9]{3}-[0-9]{4}", Regex: true},
	{Pattern: "^$", Regex: true, Before: 1},
	{Pattern: "보고서"},
	{Pattern: "é"},
	{Pattern: "über", IgnoreCase: true},
	{Pattern: "kelvin", IgnoreCase: true},
	{Pattern: "LONG s", IgnoreCase: true},
	{Pattern: "schlüssel", IgnoreCase: true},
	{Pattern: "a.b"},
	{Pattern: "(?i)package|FUNC", Regex: true},
	{Pattern: "[a-z]+\\(\\)", Regex: true},
	{Pattern: "nothing holds this"},
	{Pattern: " "},
	{Pattern: "needle", Glob: "*.go"},
	{Pattern: "needle", Glob: "src/**"},
	{Pattern: "needle", Glob: "*.{md,go}"},
	{Pattern: "needle", Glob: "/src.go"},
	{Pattern: "needle", Path: "src"},
	{Pattern: "needle", Path: "src/deep"},
	{Pattern: "needle", Path: "build"},
	{Pattern: "needle", Path: "unicode"},
}
