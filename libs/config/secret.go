package config

import (
	"encoding/json"
	"fmt"
	"io"
)

// hiddenText stands for a secret wherever it would be printed.
const hiddenText = "[hidden]"

// Secret is a setting that never prints: not with any verb of package fmt, not in a log, not in JSON or YAML. The empty
// secret prints as nothing, so that one can see that it is not set.
type Secret string

// Reveal returns the value, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hiddenText
}

// Format hides the value from every verb of package fmt, also from those that do not fit a text and print it as a
// complaint.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText hides the value; it also serves JSON, YAML and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON hides the value.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalYAML hides the value.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// UnmarshalText takes the value as it is.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}
