package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gantry-agents/gantry/libs/config"
)

// settings has a setting of each kind.
type settings struct {
	Address string            `help:"Where to serve." default:"127.0.0.1:1"`
	Store   storeSettings     `embed:"" prefix:"store-"`
	Names   []string          `help:"Some names."`
	Labels  map[string]string `help:"Some labels."`
	Wait    time.Duration     `help:"How long | to wait." default:"5s"`
	On      bool              `help:"Switch." default:"true" negatable:""`
	Hidden  string            `hidden:""`
	NoEnv   string            `env:"-"`
	Other   string            `env:"OTHER_NAME"`
}

type storeSettings struct {
	DSN      config.Secret `name:"dsn" help:"Database."`
	S3Bucket string        `name:"s3-bucket" help:"Bucket."`
	Password string        `secret:"" help:"Password." default:"built-in"`
	Size     int           `help:"Size." default:"3"`
	Kind     string        `enum:"a,b" default:"a"`
}

// load parses with the given environment and file ("" is none).
func load(t testing.TB, args []string, env map[string]string, file string) (settings, *config.Parser, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "gantry.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	var s settings
	p, err := config.New(&s, config.Options{Name: "test", LookupEnv: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Parse(args)
	return s, p, err
}

func TestPrecedence(t *testing.T) {
	const file = "address: file:1\n"
	env := map[string]string{"GANTRY_ADDRESS": "env:1"}
	tests := map[string]struct {
		args []string
		env  map[string]string
		file string
		want string
	}{
		"default":            {nil, nil, "", "127.0.0.1:1"},
		"file over default":  {nil, nil, file, "file:1"},
		"env over file":      {nil, env, file, "env:1"},
		"flag over env":      {[]string{"--address=flag:1"}, env, file, "flag:1"},
		"env over default":   {nil, env, "", "env:1"},
		"flag over default":  {[]string{"--address", "flag:1"}, nil, "", "flag:1"},
		"blank env is unset": {nil, map[string]string{"GANTRY_ADDRESS": "  "}, file, "file:1"},
		"null in the file":   {nil, nil, "address:\n", "127.0.0.1:1"},
		"flag like default":  {[]string{"--address=127.0.0.1:1"}, env, file, "127.0.0.1:1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, _, err := load(t, tt.args, tt.env, tt.file)
			if err != nil || s.Address != tt.want {
				t.Errorf("address %q, %v; want %q", s.Address, err, tt.want)
			}
		})
	}
}

func TestFileForms(t *testing.T) {
	for name, file := range map[string]string{
		"nested": "store:\n  dsn: postgres://x\n  s3-bucket: b\n  size: 7\n  kind: b\nnames: [a, 'b,c', 7]\nlabels: {x: y, z: '1'}\nwait: 1m30s\non: false\nother: o\nno-env: n\n",
		"flat":   "store-dsn: postgres://x\nstore-s3-bucket: b\nstore-size: '7'\nstore-kind: b\nnames:\n- a\n- b,c\n- '7'\nlabels:\n  x: y\n  z: '1'\nwait: 90s\non: no\nother: o\nno-env: n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := load(t, nil, nil, file)
			if err != nil {
				t.Fatal(err)
			}
			if s.Store.DSN.Reveal() != "postgres://x" || s.Store.S3Bucket != "b" || s.Store.Size != 7 || s.Store.Kind != "b" || s.Wait != 90*time.Second || s.On || s.Other != "o" || s.NoEnv != "n" {
				t.Errorf("%+v", s)
			}
			if !slices.Equal(s.Names, []string{"a", "b,c", "7"}) || len(s.Labels) != 2 || s.Labels["x"] != "y" || s.Labels["z"] != "1" {
				t.Errorf("names %q, labels %q", s.Names, s.Labels)
			}
		})
	}
	for name, file := range map[string]string{"empty": "\n", "comment": "# nothing\n", "empty section": "store:\n  {}\n", "empty list": "names: []\n"} {
		if s, _, err := load(t, nil, nil, file); err != nil || s.Store.Size != 3 || len(s.Names) != 0 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestEnvironmentNames(t *testing.T) {
	s, _, err := load(t, nil, map[string]string{
		"GANTRY_STORE_S3_BUCKET": "b", "OTHER_NAME": "o", "GANTRY_NO_ENV": "n", "GANTRY_NAMES": "a,b", "GANTRY_ON": "false", "GANTRY_STORE_DSN": "d", "GANTRY_LABELS": "x=y;z=1",
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.Store.S3Bucket != "b" || s.Other != "o" || s.NoEnv != "" || !slices.Equal(s.Names, []string{"a", "b"}) || s.On || s.Store.DSN.Reveal() != "d" || s.Labels["z"] != "1" {
		t.Errorf("%+v", s)
	}
}

func TestMistakes(t *testing.T) {
	tests := map[string]struct {
		args []string
		env  map[string]string
		file string
		want []string
	}{
		"unknown key":        {nil, nil, "# first\nadress: x\n", []string{":2:", `"adress"`, `did you mean "address"?`}},
		"unknown in section": {nil, nil, "store:\n  siez: 3\n", []string{":2:", `"store-siez"`, `"store-size"`}},
		"nothing near":       {nil, nil, "completely-different-thing: 3\n", []string{`unknown setting "completely-different-thing"`}},
		"unknown section":    {nil, nil, "shop:\n  size: 3\n", []string{`unknown setting "shop"`}},
		"stated twice":       {nil, nil, "store-size: 1\nstore:\n  size: 2\n", []string{":3:", "stated twice"}},
		"own flag in a file": {nil, nil, "config: x\n", []string{`unknown setting "config"`}},
		"list for a scalar":  {nil, nil, "address: [a]\n", []string{"wrong form"}},
		"map for a scalar":   {nil, nil, "address: {a: b}\n", []string{`unknown setting "address"`}},
		"scalar document":    {nil, nil, "hello\n", []string{":1:", "name: value"}},
		"no YAML":            {nil, nil, "a: [\n", []string{"gantry.yaml"}},
		"bad number":         {nil, nil, "store-size: many\n", []string{"store-size"}},
		"bad enum":           {nil, nil, "store-kind: c\n", []string{"store-kind"}},
		"bad env":            {nil, map[string]string{"GANTRY_WAIT": "soon"}, "", []string{"wait"}},
		"unknown flag":       {[]string{"--adress=x"}, nil, "", []string{"--adress"}},
		"missing file":       {[]string{"--config=/no/such/file"}, nil, "", []string{"/no/such/file"}},
		"missing env file":   {nil, map[string]string{"GANTRY_CONFIG": "/no/such/file"}, "", []string{"/no/such/file"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := load(t, tt.args, tt.env, tt.file)
			var wrong *config.Error
			if !errors.As(err, &wrong) {
				t.Fatalf("got %v, want a config.Error", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestDefaultFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gantry.yaml")
	read := func() string {
		var s settings
		if err := config.Load(&s, nil, config.Options{DefaultFile: path, LookupEnv: func(string) (string, bool) { return "", false }}); err != nil {
			t.Fatal(err)
		}
		return s.Address
	}
	if got := read(); got != "127.0.0.1:1" {
		t.Errorf("without the file: %q", got)
	}
	if err := os.WriteFile(path, []byte("address: file:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "file:1" {
		t.Errorf("with the file: %q", got)
	}
}

func TestPrint(t *testing.T) {
	_, p, err := load(t, []string{"--wait=7s"}, map[string]string{"GANTRY_STORE_DSN": "hush", "GANTRY_NAMES": "a,b"}, "store: {password: hush, size: 9}\nlabels: {k: v}\n")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Print(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hush") || strings.Contains(out.String(), "built-in") {
		t.Errorf("a secret is printed:\n%s", out.String())
	}
	fields := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		fields[name] = strings.Join(strings.Fields(rest), " ")
	}
	for name, want := range map[string]string{
		"address": `"127.0.0.1:1" # default`, "wait": `"7s" # flag`, "store-size": "9 # file", "store-dsn": "[hidden] # env", "store-password": "[hidden] # file",
		"names": `["a", "b"] # env`, "labels": `{"k": "v"} # file`, "on": "true # default", "store-s3-bucket": `"" # default`,
	} {
		if fields[name] != want {
			t.Errorf("%s: %s; want %s", name, fields[name], want)
		}
	}
	// What is printed is a settings file.
	again, _, err := load(t, nil, nil, out.String())
	if err != nil {
		t.Fatalf("the printed settings cannot be read:\n%s\n%v", out.String(), err)
	}
	if again.Wait != 7*time.Second || again.Store.Size != 9 || again.Store.DSN != "" {
		t.Errorf("read back as %+v", again)
	}
}

func TestPrintFlagsEndTheProgram(t *testing.T) {
	for flag, want := range map[string]string{"--print-config": "address: ", "--print-markdown": "| `address` | `GANTRY_ADDRESS` | `127.0.0.1:1` | Where to serve. |", "--help": "GANTRY_STORE_S3_BUCKET"} {
		var s settings
		var out bytes.Buffer
		code := -1
		opts := config.Options{Stdout: &out, LookupEnv: func(string) (string, bool) { return "", false }, Exit: func(c int) { code = c }}
		if err := config.Load(&s, []string{flag}, opts); err != nil {
			t.Fatal(err)
		}
		if code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit %d, output:\n%s", flag, code, out.String())
		}
	}
}

func TestMarkdown(t *testing.T) {
	_, p, err := load(t, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Markdown(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `wait` | `GANTRY_WAIT` | `5s` | How long \\| to wait. |", "| `other` | `OTHER_NAME` |", "| `no-env` |  |",
		"| `store-password` | `GANTRY_STORE_PASSWORD` |  | Password. Secret: never printed. |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	for _, unwanted := range []string{"hidden`", "built-in", "print-config", "`help`"} {
		if strings.Contains(out.String(), unwanted) {
			t.Errorf("the table has %q:\n%s", unwanted, out.String())
		}
	}
}

func TestSecretsNeverPrint(t *testing.T) {
	s := struct {
		Key config.Secret
		Ptr *config.Secret
	}{Key: "hush"}
	s.Ptr = &s.Key
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	inYAML, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", s.Key, "all", s)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s.Key, "all", s)
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", s), "%+v": fmt.Sprintf("%+v", s), "%#v": fmt.Sprintf("%#v", s), "%s": fmt.Sprintf("%s", s.Key), "%q": fmt.Sprintf("%q", s.Key), "%x": fmt.Sprintf("%x", s.Key),
		"a verb that does not fit": fmt.Sprintf(strings.Replace("%s", "s", "d", 1), s.Key),
		"json":                     string(encoded), "yaml": string(inYAML), "log": log.String(), "error": fmt.Errorf("key %v", s.Key).Error(),
	} {
		if strings.Contains(text, "hush") || strings.Contains(text, "68757368") {
			t.Errorf("%s prints the secret: %s", name, text)
		}
	}
	if s.Key.Reveal() != "hush" || config.Secret("").String() != "" {
		t.Error("Reveal or the empty secret is wrong")
	}
}
