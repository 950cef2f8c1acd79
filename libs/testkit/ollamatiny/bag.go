package ollamatiny

import (
	"math/rand/v2"
	"strings"
)

// EmbedModelfile makes the embedding model known to Ollama.
const EmbedModelfile = "FROM ./embed.gguf\n"

// words are whole tokens of the embedding model; other words count by their letters.
const words = `the a an and or of to in on at with for is are was it this that my your our who what where when which how
	cat dog mat sat house tree river city garden quantum physics field theory particle energy wave deploy service kubernetes cluster
	node database index search query table go grpc proto server client error retry timeout note markdown workspace file folder path
	user tenant agent model token stream memory fact tool task thread weather paris berlin sunny rain snow cook pasta tomato recipe
	kitchen oven tea coffee breakfast favourite colour blue green red meeting friday monday sprint release plan budget invoice`

// embedWidth is the length of the vectors.
const embedWidth = 256

// Embed is the GGUF file of the embedding model.
func Embed() ([]byte, error) {
	v, begin, end := newVocabulary()
	var merges []string
	known := map[string]bool{}
	for _, w := range strings.Fields(words) { // each word is built letter by letter, as byte-pair encoding does
		for _, form := range []string{w, " " + w} {
			letters := strings.Split(encode(form), "")
			for i := 1; i < len(letters); i++ {
				head := strings.Join(letters[:i], "")
				if token := head + letters[i]; !known[token] {
					known[token] = true
					merges = append(merges, head+" "+letters[i])
					v.add(token, tokenNormal)
				}
			}
		}
	}
	const kvHeads = embedWidth / headSize
	f := &file{}
	v.describe(f, "tiny bag of words", embedWidth, kvHeads, begin, end, merges...)
	f.set("llama.pooling_type", uint32(1)) // the mean; it also tells Ollama that the model only embeds
	random := rand.New(rand.NewPCG(1, 2))
	f.matrix("token_embd.weight", embedWidth, len(v.tokens), func(int, int) float32 { return float32(random.IntN(2)*2 - 1) })
	f.vector("output_norm.weight", embedWidth, 1)
	f.matrix("output.weight", embedWidth, len(v.tokens), nil)
	// The average of all tokens so far, eight times stronger than the token itself.
	layer(f, embedWidth, kvHeads,
		func(c, r int) float32 { return is(c == r, 1) },
		func(c, r int) float32 { return is(c == r, 8) })
	return f.bytes()
}
