// Package config reads the settings of a program: defaults < file (YAML) < environment < flags.
//
// Settings are one struct with tags of github.com/alecthomas/kong (default, help, name, env, embed, prefix, enum);
// nothing about a setting is said anywhere else. From the struct come the flags, the environment variables (GANTRY_ and
// the flag's name in capitals), the keys of the file (the flag's name; sections may be nested, "server: {address: …}"
// is "server-address"), the help, the printed settings and the table of the documentation. Secrets have the type
// [Secret] or the tag secret.
package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// Options say how a program's settings are read. The zero value is usable.
type Options struct {
	// Name and Description of the program, for its help.
	Name, Description string
	// EnvPrefix begins the names of environment variables. Empty: "GANTRY".
	EnvPrefix string
	// DefaultFile is read when it exists and neither --config nor PREFIX_CONFIG names a file.
	DefaultFile string
	// LookupEnv reads the environment. Nil: the process's.
	LookupEnv func(string) (string, bool)
	// Stdout and Stderr are for help. Nil: the process's.
	Stdout, Stderr io.Writer
	// Exit ends the program after help. Nil: os.Exit.
	Exit func(int)
	// Kong are further options of kong, for programs with commands.
	Kong []kong.Option
}

// Error says that settings are wrong. Its text is one line for the person who runs the program.
type Error struct{ Err error }

// Error returns the line.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Parser reads settings into one struct.
type Parser struct {
	opts    Options
	kong    *kong.Kong
	own     ownFlags
	file    *file
	sources map[string]Source
	// envs are the variables of each flag, by its name.
	envs map[string][]string
}

// ownFlags are the flags of this package.
type ownFlags struct {
	Config        string `help:"File with settings (YAML). Keys are the names of the flags." placeholder:"FILE"`
	PrintConfig   bool   `help:"Print the settings in effect and where each comes from, and exit."`
	PrintMarkdown bool   `hidden:"" help:"Print the table of settings for the documentation, and exit." env:"-"`
}

// New returns a parser for target, a pointer to a struct. A tag that makes no sense is an error.
func New(target any, opts Options) (*Parser, error) {
	if opts.EnvPrefix == "" {
		opts.EnvPrefix = "GANTRY"
	}
	if opts.LookupEnv == nil {
		opts.LookupEnv = os.LookupEnv
	}
	if opts.Stdout == nil {
		opts.Stdout = os.Stdout
	}
	if opts.Stderr == nil {
		opts.Stderr = os.Stderr
	}
	if opts.Exit == nil {
		opts.Exit = os.Exit
	}
	p := &Parser{opts: opts, sources: make(map[string]Source), envs: make(map[string][]string)}
	all := append([]kong.Option{
		kong.Description(opts.Description), kong.Writers(opts.Stdout, opts.Stderr), kong.Exit(opts.Exit),
		kong.Embed(&p.own), kong.PostBuild(p.nameEnvironment), kong.ValueFormatter(p.help), kong.Resolvers(resolver{p}),
	}, opts.Kong...)
	if opts.Name != "" {
		all = append(all, kong.Name(opts.Name))
	}
	k, err := kong.New(target, all...)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	p.kong = k
	return p, nil
}

// Parse reads the settings: args are the arguments without the program's name. An error is an [Error], and the target
// is then not to be used. For programs with commands the context says which one was chosen.
func (p *Parser) Parse(args []string) (*kong.Context, error) {
	if err := p.openFile(args); err != nil {
		return nil, &Error{err}
	}
	clear(p.sources)
	ctx, err := p.kong.Parse(args)
	if err != nil {
		return nil, &Error{err}
	}
	for _, path := range ctx.Path {
		if path.Flag != nil && !path.Resolved {
			p.sources[path.Flag.Name] = SourceFlag
		}
	}
	return ctx, nil
}

// Load reads the settings of a program without commands from the process's arguments, environment and file. It obeys
// --print-config and --print-markdown.
func Load(target any, args []string, opts Options) error {
	p, err := New(target, opts)
	if err != nil {
		return err
	}
	if _, err := p.Parse(args); err != nil {
		return err
	}
	return p.ObeyPrint()
}

// ObeyPrint prints and exits when --print-config or --print-markdown is given.
func (p *Parser) ObeyPrint() error {
	var err error
	switch {
	case p.own.PrintConfig:
		err = p.Print(p.opts.Stdout)
	case p.own.PrintMarkdown:
		err = p.Markdown(p.opts.Stdout)
	default:
		return nil
	}
	if err == nil {
		p.opts.Exit(0)
	}
	return err
}

// flags returns every flag, of commands too, except those of this package and help.
func (p *Parser) flags() []*kong.Flag {
	var out []*kong.Flag
	seen := map[string]bool{"help": true, "config": true, "print-config": true, "print-markdown": true}
	_ = kong.Visit(p.kong.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && !seen[flag.Name] {
			seen[flag.Name] = true
			out = append(out, flag)
		}
		return next(nil)
	})
	return out
}

// nameEnvironment gives every flag its variable, and takes the reading of variables away from kong, which would let the
// file win over them.
func (p *Parser) nameEnvironment(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && flag.Name != "help" {
			switch names := flag.Tag.Envs; {
			case len(names) == 0:
				p.envs[flag.Name] = []string{p.envName(flag.Name)}
			case names[0] != "-":
				p.envs[flag.Name] = names
			}
			flag.Tag.Envs = nil
		}
		return next(nil)
	})
}

// help returns the help of a value with its variables.
func (p *Parser) help(value *kong.Value) string {
	names := p.envs[value.Name]
	if value.Flag == nil || len(names) == 0 {
		return value.Help
	}
	return strings.TrimSpace(value.Help + " ($" + strings.Join(names, ", $") + ")")
}

func (p *Parser) envName(flag string) string {
	return p.opts.EnvPrefix + "_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(flag))
}

// resolver gives kong what flags on the command line do not say.
type resolver struct{ p *Parser }

// Validate is part of kong's interface.
func (resolver) Validate(*kong.Application) error { return nil }

// Resolve looks into the environment and then into the file. A blank variable counts as not set.
func (r resolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range r.p.envs[flag.Name] {
		if value, ok := r.p.opts.LookupEnv(name); ok && strings.TrimSpace(value) != "" {
			r.p.sources[flag.Name] = SourceEnv
			return value, nil
		}
	}
	if r.p.file == nil {
		return nil, nil
	}
	value, ok, err := r.p.file.value(flag)
	if err != nil || !ok {
		return nil, err
	}
	r.p.sources[flag.Name] = SourceFile
	return value, nil
}

// fileName returns the settings file that arguments or environment name, and whether one is named.
func (p *Parser) fileName(args []string) (name string, named bool) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--config="); ok {
			return value, true
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1], true
		}
	}
	if value, ok := p.opts.LookupEnv(p.envName("config")); ok && strings.TrimSpace(value) != "" {
		return value, true
	}
	return p.opts.DefaultFile, false
}

// openFile reads the settings file, if there is one, and checks its keys.
func (p *Parser) openFile(args []string) error {
	p.file = nil
	name, named := p.fileName(args)
	if name == "" {
		return nil
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return fmt.Errorf("settings file: %w", err)
	}
	p.file, err = parseFile(name, data, p.flags())
	return err
}
