package ollamatiny

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

func TestAnswersAreTheirPieces(t *testing.T) {
	want := map[string]string{"<|hello|>": Hello, "<|greet|>": Unicode, "<|json|>": JSON, "<|after|>": AfterTool}
	for _, a := range answers {
		text := strings.Join(a.pieces, "")
		if w, ok := want[a.token]; ok && text != w {
			t.Errorf("%s says %q, want %q", a.token, text, w)
		}
		if !strings.Contains(Modelfile, a.token) {
			t.Errorf("the template never leads to %s", a.token)
		}
	}
}

func TestFilesAreSoundAndAlwaysTheSame(t *testing.T) {
	for name, make := range map[string]func() ([]byte, error){"chat": Chat, "embed": Embed} {
		t.Run(name, func(t *testing.T) {
			a, err := make()
			if err != nil {
				t.Fatal(err)
			}
			b, err := make()
			if err != nil || !bytes.Equal(a, b) {
				t.Errorf("two files differ (%v)", err)
			}
			if len(a) > 4<<20 {
				t.Errorf("the file has %d bytes, want a tiny one", len(a))
			}
			if string(a[:4]) != "GGUF" || binary.LittleEndian.Uint32(a[4:]) != 3 {
				t.Errorf("header % x", a[:8])
			}
			if len(a)%ggufAlignment != 0 {
				t.Errorf("the end is not aligned: %d", len(a))
			}
		})
	}
}

func TestTokensOccurOnce(t *testing.T) {
	v, _, end := newVocabulary()
	if err := v.chain("<|x|>", []string{"ab", "cd"}, end); err != nil {
		t.Fatal(err)
	}
	if err := v.chain("<|y|>", []string{"ab"}, end); err == nil {
		t.Error("a token twice is not refused: the server would abort on it")
	}
}

func TestByteTokensAreTheUsualAlphabet(t *testing.T) {
	for b, want := range map[byte]string{'a': "a", ' ': "Ġ", '\n': "Ċ", 0: "Ā", 0xad: "Ń", 0xff: "ÿ"} {
		if got := byteToken(b); got != want {
			t.Errorf("byteToken(%#x) = %q, want %q", b, got, want)
		}
	}
}

func TestHalf(t *testing.T) {
	for v, want := range map[float32]uint16{0: 0, 1: 0x3c00, 2: 0x4000, 8: 0x4800, -1: 0xbc00} {
		if got := half(v); got != want {
			t.Errorf("half(%v) = %#x, want %#x", v, got, want)
		}
	}
}
