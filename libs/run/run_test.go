package run_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/internal/fakefs"
	"github.com/gantry-agents/gantry/libs/run"
)

// asService makes the test binary behave as the fake service.
const asService = "GANTRY_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		os.Exit(run.Main(run.Spec[settings]{
			Name: "fake", Address: "127.0.0.1:0",
			New: func(_ context.Context, cfg settings, _ run.Env) (run.Service, error) {
				s := &service{Server: fakefs.Echo()}
				if cfg.Greeting == "stuck" {
					s.onStop = func() { select {} }
				}
				return s, nil
			},
		}))
	}
	goleak.VerifyTestMain(m)
}

// TestSignals runs the service as a process.
func TestSignals(t *testing.T) {
	tests := map[string]struct {
		args    []string
		signals int
		code    int
	}{
		"one signal stops it":               {nil, 1, run.ExitOK},
		"a second one ends it if it hangs":  {[]string{"--greeting=stuck"}, 2, -1},
		"wrong settings never get that far": {[]string{"--greeting=bad"}, 0, run.ExitSettings},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, os.Args[0], tt.args...)
			command.Env = append(os.Environ(), asService+"=1")
			output, err := command.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(output)
			for _, text := range []string{"msg=serving", "msg=stopping"}[:tt.signals] {
				for lines.Scan() && !strings.Contains(lines.Text(), text) {
				}
				if err := command.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			for lines.Scan() {
			}
			_ = command.Wait() // the code below says it all
			if got := command.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code %d, want %d", got, tt.code)
			}
		})
	}
}

// settings are those of the fake service.
type settings struct {
	Greeting string `help:"What to say." default:"hello"`
}

// Validate refuses one greeting.
func (s settings) Validate() error {
	if s.Greeting == "bad" {
		return errors.New("greeting: not this one")
	}
	return nil
}

// service is a service whose steps are noted.
type service struct {
	*fakefs.Server
	startErr error
	onStop   func()
	mu       sync.Mutex
	steps    []string
}

func (s *service) note(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

func (s *service) Register(r grpc.ServiceRegistrar) {
	s.note("register")
	filesystemv1.RegisterFilesystemServiceServer(r, s.Server)
}

func (s *service) Start(context.Context) error {
	s.note("start")
	return s.startErr
}

func (s *service) Stop(context.Context) error {
	s.note("stop")
	if s.onStop != nil {
		s.onStop()
	}
	return nil
}

// running is a service under test.
type running struct {
	service *service
	got     settings
	log     *log
	code    chan int
	stop    context.CancelFunc
}

// log can be read while it is written, and tells when a text has come.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func start(t testing.TB, s *service, newErr error, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{service: s, log: &log{news: make(chan struct{}, 1)}, code: make(chan int, 1), stop: cancel}
	spec := run.Spec[settings]{
		Name: "fake", Description: "A fake.", Address: "127.0.0.1:0",
		New: func(_ context.Context, cfg settings, env run.Env) (run.Service, error) {
			r.got = cfg
			if _, err := env.Dial("127.0.0.1:1"); err != nil {
				t.Error(err)
			}
			if newErr != nil {
				return nil, newErr
			}
			return s, nil
		},
	}
	go func() {
		r.code <- run.Run(ctx, spec, args, config.Options{LookupEnv: func(string) (string, bool) { return "", false }, Stdout: io.Discard, Exit: func(int) {}}, r.log)
	}()
	t.Cleanup(cancel)
	return r
}

// serving waits until the service serves and returns its address.
func (r *running) serving(t testing.TB) string {
	t.Helper()
	for {
		for line := range strings.Lines(r.log.String()) {
			if _, rest, ok := strings.Cut(line, "msg=serving"); ok {
				_, rest, _ = strings.Cut(rest, "address=")
				address, _, _ := strings.Cut(rest, " ")
				return address
			}
		}
		select {
		case <-r.log.news:
		case code := <-r.code:
			t.Fatalf("ended with %d: %s", code, r.log)
		}
	}
}

func TestAServiceServesUntilItIsToldToStop(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	r := start(t, &service{Server: fakefs.Echo()}, nil, "--greeting=hi", "--address="+socket)
	if got := r.serving(t); got != socket {
		t.Errorf("serves on %q", got)
	}
	conn, err := client.Dial(socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := filesystemv1.NewFilesystemServiceClient(conn).Stat(t.Context(), &filesystemv1.StatRequest{}); err != nil {
		t.Error(err)
	}
	r.stop()
	if code := <-r.code; code != run.ExitOK {
		t.Errorf("exit code %d: %s", code, r.log)
	}
	if got := strings.Join(r.service.steps, " "); got != "register start stop" || r.got.Greeting != "hi" {
		t.Errorf("steps %q, greeting %q", got, r.got.Greeting)
	}
}

func TestTheDefaultAddressIsTheServices(t *testing.T) {
	r := start(t, &service{Server: fakefs.Echo()}, nil)
	if got := r.serving(t); !strings.HasPrefix(got, "127.0.0.1:") || got == "127.0.0.1:7401" {
		t.Errorf("serves on %q", got)
	}
	r.stop()
	<-r.code
}

func TestExitCodes(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	tests := map[string]struct {
		args   []string
		newErr error
		start  error
		code   int
		text   string
	}{
		"unknown flag":         {[]string{"--nope"}, nil, nil, run.ExitSettings, "--nope"},
		"bad value":            {[]string{"--log-level=loud"}, nil, nil, run.ExitSettings, "log-level"},
		"bad service setting":  {[]string{"--greeting=bad"}, nil, nil, run.ExitSettings, "not this one"},
		"bad address":          {[]string{"--address=nowhere"}, nil, nil, run.ExitSettings, "nowhere"},
		"open to the world":    {[]string{"--address=0.0.0.0:0"}, nil, nil, run.ExitSettings, "auth-mode"},
		"memory by itself":     {[]string{"--address=memory:x"}, nil, nil, run.ExitFailed, "memory:x"},
		"no key":               {[]string{"--auth-mode=jwt"}, nil, nil, run.ExitSettings, "auth-jwt-key"},
		"bad debug address":    {[]string{"--debug-address=x"}, nil, nil, run.ExitSettings, "debug-address"},
		"setting found by New": {nil, &config.Error{Err: errors.New("dsn: no such database")}, nil, run.ExitSettings, "no such database"},
		"New fails":            {nil, errors.New("disk on fire\nand wet"), nil, run.ExitFailed, "disk on fire; and wet"},
		"Start fails":          {nil, nil, errors.New("no luck"), run.ExitFailed, "no luck"},
		"busy address":         {[]string{"--address=" + busy.Addr().String()}, nil, nil, run.ExitFailed, busy.Addr().String()},
		"busy debug address":   {[]string{"--debug-address=" + busy.Addr().String()}, nil, nil, run.ExitFailed, busy.Addr().String()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &service{Server: fakefs.Echo(), startErr: tt.start}
			r := start(t, s, tt.newErr, tt.args...)
			if code := <-r.code; code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			text := strings.TrimSpace(r.log.String())
			if strings.Contains(text, "\n") || !strings.HasPrefix(text, "fake: ") || !strings.Contains(text, tt.text) {
				t.Errorf("not one line that says %q: %q", tt.text, text)
			}
			if steps := strings.Join(s.steps, " "); strings.Contains(steps, "stop") != (strings.Contains(steps, "start") && tt.start == nil) {
				t.Errorf("steps %q", steps)
			}
		})
	}
}

func TestDebugListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	r := start(t, &service{Server: fakefs.Echo()}, nil, "--debug-address="+address)
	r.serving(t)
	httpClient := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/metrics": "gantry_info", "/healthz": "ok", "/debug/pprof/": "goroutine"} {
		response, err := httpClient.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v, %q", path, response.Status, err, body)
		}
	}
	r.stop()
	if code := <-r.code; code != run.ExitOK {
		t.Errorf("exit code %d: %s", code, r.log)
	}
	if _, err := httpClient.Get("http://" + address + "/healthz"); err == nil {
		t.Error("the listener outlives the service")
	}
}
