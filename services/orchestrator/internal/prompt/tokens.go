package prompt

import (
	"unicode/utf8"

	"github.com/gantry-agents/gantry/libs/model"
)

// Overheads of the estimate, in tokens: what providers add around a message and around a call.
const (
	messageOverhead = 5
	callOverhead    = 10
	imageTokens     = 1000
)

// Tokens estimates the tokens of a text: a quarter of its characters, and one each for those beyond Latin scripts, which
// tokenisers seldom join. It errs on the high side for code and prose alike.
func Tokens(s string) int {
	latin, other := 0, 0
	for _, r := range s {
		if r < 0x2000 {
			latin++
		} else {
			other++
		}
	}
	return (latin+3)/4 + other
}

func conversationTokens(messages []model.Message) int {
	total := 0
	for _, m := range messages {
		total += messageOverhead
		for _, b := range m.Blocks {
			switch {
			case b.ToolCall != nil:
				total += callOverhead + Tokens(b.ToolCall.Name) + Tokens(string(b.ToolCall.Arguments))
			case b.ToolResult != nil:
				total += callOverhead + Tokens(b.ToolResult.Content)
			case b.Image != nil:
				total += imageTokens
			default:
				total += Tokens(b.Text)
			}
		}
	}
	return total
}

func toolTokens(specs []model.ToolSpec) int {
	total := 0
	for _, s := range specs {
		total += callOverhead + Tokens(s.Name) + Tokens(s.Description) + Tokens(string(s.Schema))
	}
	return total
}

// cutLines keeps whole lines from the start of a text up to a number of tokens, and says how many lines are left out.
func cutLines(s string, most int) (kept string, left int) {
	if Tokens(s) <= most {
		return s, 0
	}
	end, tokens := 0, 0
	rest := s
	for rest != "" {
		line := rest
		if i := indexLine(rest); i > 0 {
			line = rest[:i]
		}
		if tokens += Tokens(line); tokens > most {
			break
		}
		end += len(line)
		rest = rest[len(line):]
	}
	for rest != "" {
		left++
		i := indexLine(rest)
		if i <= 0 {
			break
		}
		rest = rest[i:]
	}
	return s[:end], left
}

// indexLine is the length of the first line with its ending; 0 when there is no line feed.
func indexLine(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '\n' {
			return i + 1
		}
	}
	return 0
}

// cutChars shortens a text to a number of characters.
func cutChars(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
