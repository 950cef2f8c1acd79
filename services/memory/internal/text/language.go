package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
)

// language is a language whose words are cut to stems.
type language struct {
	name string
	stem func(*snowballstem.Env) bool
	// stop are the most common words, folded: they tell the language, and count in a query only when there is nothing else.
	stop map[string]bool
}

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// languages are the ones that are told apart. The first is taken for text in the Latin script that shows no language.
var languages = []language{
	{"en", english.Stem, set(`a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it its me my no not of on or our
		she should so than that the their them then there these they this to us was we were what when where which who why will with would you your`)},
	{"de", german.Stem, set(`aber als am an auch auf aus bei bin bis bist da das dass dein dem den der des die dies du ein eine einem einen einer er es fur hat ich ihr im in ist ja
		kann man mein meine mit nach nicht noch nur oder sein sich sie sind so uber um und uns unser von vor wann war was wer wie wir wird wo zu zum zur`)},
	{"es", spanish.Stem, set(`a al como con cual cuando de del donde el ella en era es esta este fue ha hay la las le lo los mas me mi mis no nos o para pero por que quien se ser si sin
		son su sus te tiene tu un una y ya yo`)},
	{"fr", french.Stem, set(`a au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur lui ma mais me mes mon ne nos notre nous on ou par pas pour quand que quel
		quelle qui sa se ses son sont sur ta te tu un une vous y`)},
	{"pt", portuguese.Stem, set(`a ao aos as com como da das de do dos e ela ele em era essa esse esta este eu foi ha isso ja la mais mas me meu minha na nao nas no nos o onde os ou para
		pela pelo por qual quando que quem se sem ser seu sua sao tem um uma voce`)},
	{"it", italian.Stem, set(`al alla anche che chi ci come con cosa da dal della delle di dove e ed era gli ha ho i il in io la le lei lo lui ma mi mia mio ne nel non o per piu quale
		quando quello questa questo se si sono su sua suo ti tu un una uno`)},
	{"nl", dutch.Stem, set(`aan al als bij dat de der deze die dit door een en er had heb hebben heeft het hij hoe ik in is je kan maar mijn met naar niet nog of om onze ook op over te
		tot uit van voor waar wat we wel wie wij wordt zijn zo`)},
	{"ru", russian.Stem, set(`а без бы был была были было быть в вы где да для до его ее если есть еще же за и из или им их к как когда кто ли мне мой мы на не нет но о он она они
		от по при с со так такои там то только ты у уже что чтобы это я`)},
}

// count counts, for each language, the most common words of it that stand in a text, and says whether the text has Latin letters.
func count(s string) (counts []int, latin bool) {
	counts = make([]int, len(languages))
	total := 0
	runs(s, func(r run) bool {
		if r.kind != runWord {
			return true
		}
		w := foldWord(s[r.start:r.end])
		first, _ := utf8.DecodeRuneInString(w)
		latin = latin || unicode.Is(unicode.Latin, first)
		for i := range languages {
			if languages[i].stop[w] {
				counts[i]++
			}
		}
		total++
		return total < 400
	})
	return counts, latin
}

// detect gives the languages that a text is most likely in, at most two; a short text may be in any.
func detect(s string) []int {
	counts, latin := count(s)
	best, second := -1, -1
	for i, n := range counts {
		switch {
		case n == 0:
		case best < 0 || n > counts[best]:
			best, second = i, best
		case second < 0 || n > counts[second]:
			second = i
		}
	}
	switch {
	case best < 0 && latin:
		return []int{0}
	case best < 0:
		return []int{len(languages) - 1}
	case second >= 0 && counts[second]*2 > counts[best]:
		return []int{best, second}
	}
	return []int{best}
}

// stems gives the stems of a folded word in each of the languages, with the language's name in front.
func stems(word string, in []int) []string {
	if len(word) < 3 || word[0] >= '0' && word[0] <= '9' {
		return nil
	}
	out := make([]string, 0, len(in))
	for _, i := range in {
		env := snowballstem.NewEnv(word)
		languages[i].stem(env)
		out = append(out, languages[i].name+":"+env.Current())
	}
	return out
}

// stopWords gives a test for words of a text that are so common that they tell nothing. A word of one language may be a common one of another ("die", "door"), so
// beside English only languages count that the text shows by two words at least.
func stopWords(s string) func(word string) bool {
	counts, _ := count(s)
	var in []map[string]bool
	for i, n := range counts {
		if i == 0 || n >= 2 && n >= counts[0] {
			in = append(in, languages[i].stop)
		}
	}
	return func(word string) bool {
		for _, stop := range in {
			if stop[word] {
				return true
			}
		}
		return false
	}
}
