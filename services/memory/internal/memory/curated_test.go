package memory

import "testing"

func TestSubjectOf(t *testing.T) {
	for statement, want := range map[string]string{
		"The gate code is K6": "gate code", "The door code changed to D2": "door code", "my badge is 4471": "badge", "Ana is a doctor": "",
		"The server is down": "", "工牌号码是 4471": "工牌号码", "no relation here at all": "", "Project Falcon deadline: Friday": "project falcon deadline",
	} {
		if got := subjectOf(statement); got != want {
			t.Errorf("%q is about %q, want %q", statement, got, want)
		}
	}
}
