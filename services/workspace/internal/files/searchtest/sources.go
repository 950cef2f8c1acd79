package searchtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// words of the made sources, the first the most frequent.
var words = strings.Fields(`return err nil if string func int error for range the of to ctx context type struct value name path file test data node
	key list map index buffer request response server client config option handler message stream reader writer close open read write update delete create
	length offset count total limit result status code time duration timeout retry cancel wait signal channel mutex lock unlock queue stack tree graph edge
	token parse format encode decode marshal unmarshal header footer body content version revision hash digest signature certificate session user agent tenant
	bucket layer template override whiteout snapshot journal commit rollback checkpoint replica leader follower election heartbeat lease epoch shard partition
	histogram percentile gauge counter exporter tracer sampler propagator interceptor middleware validator sanitizer normalizer tokenizer stemmer`)

// Sources calls put with made source files, the same ones each time: n files in directories of about ten, of 1 to 75 KB, 10 KB on average. One file in 500 holds
// "xylophone", one in 2,000 "Quixotic_Handler", one in 300 a text beyond ASCII, one in 100 a long constant name.
func Sources(n int, put func(name string, content []byte) error) error {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		// Few words make most of the text, as in any.
		i := int(float64(len(words)) * random.Float64() * random.Float64() * random.Float64())
		return words[i]
	}
	ignored := put(".gitignore", []byte("*.log\nbuild/\n/tmp\n"))
	if ignored != nil {
		return ignored
	}
	extensions := []string{"go", "go", "go", "py", "ts", "md", "yaml", "proto"}
	for i := range n {
		dir := fmt.Sprintf("pkg%02d/%s/%s%d", i/1000, words[i/100%len(words)], words[i/10%len(words)], i/10%7)
		name := fmt.Sprintf("%s/%s_%d.%s", dir, words[i%len(words)], i, extensions[i%len(extensions)])
		var b strings.Builder
		size := 1000 + int(39_000*random.Float64()*random.Float64()*random.Float64()*1.9)
		for b.Len() < size {
			switch indent := strings.Repeat("\t", random.IntN(4)); random.IntN(6) {
			case 0:
				fmt.Fprintf(&b, "func (%s *%s) %s(%s %s) (%s, error) {\n", word()[:1], word(), word(), word(), word(), word())
			case 1:
				fmt.Fprintf(&b, "%s// %s %s %s %s %s %s %s.\n", indent, word(), word(), word(), word(), word(), word(), word())
			case 2:
				fmt.Fprintf(&b, "%sif %s := %s.%s(%s, %d); %s != nil {\n%s\treturn nil, %s\n%s}\n", indent, word(), word(), word(), word(), random.IntN(1000), word(), indent, word(), indent)
			case 3:
				fmt.Fprintf(&b, "%s%s = append(%s, %s[%s])\n", indent, word(), word(), word(), word())
			case 4:
				fmt.Fprintf(&b, "%s%q: {%s: %d, %s: %q},\n", indent, word(), word(), random.IntN(100), word(), word())
			default:
				b.WriteString("\n")
			}
		}
		if i%500 == 7 {
			b.WriteString("// the xylophone plays\n")
		}
		if i%2000 == 9 {
			b.WriteString("type Quixotic_Handler struct{}\n")
		}
		if i%300 == 11 {
			b.WriteString("// Größe der Übertragung in Bytes, 보고서\n")
		}
		if i%100 == 13 {
			fmt.Fprintf(&b, "const MAX_%s_ID = 0x%08x\n", strings.ToUpper(word()), random.Uint32())
		}
		if err := put(name, []byte(b.String())); err != nil {
			return err
		}
	}
	return nil
}

// WriteTo returns a function for [Sources] that writes below a directory.
func WriteTo(dir string) func(string, []byte) error {
	return func(name string, content []byte) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, content, 0o644)
	}
}
