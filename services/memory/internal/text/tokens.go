package text

import "unicode"

// EstimateTokens guesses how many tokens a language model counts for the text, without knowing the model: a quarter for a character of
// ASCII, half for one of another alphabet, one for one of a script without spaces. Bytes are no measure: a Chinese character has three.
func EstimateTokens(s string) int {
	quarters := 0
	for _, r := range s {
		switch {
		case r < 0x80:
			quarters++
		case unicode.In(r, dense...) || unicode.Is(unicode.Hangul, r):
			quarters += 4
		default:
			quarters += 2
		}
	}
	return (quarters + 3) / 4
}
