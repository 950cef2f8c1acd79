package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// BusyError says that the address to serve on is taken.
type BusyError struct {
	// Address is the address in the form of the settings.
	Address string
	// Err is what the system said.
	Err error
}

// Error names the address and the setting that changes it.
func (e *BusyError) Error() string {
	return fmt.Sprintf("server: address %s is in use by another program; "+
		"stop that program or choose another address (setting: address)", e.Address)
}

// Unwrap returns what the system said.
func (e *BusyError) Unwrap() error { return e.Err }

// staleTimeout is how long a socket file may take to answer before it counts as left over.
const staleTimeout = time.Second

// listen opens the address.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	switch s.address.kind {
	case memory:
		l, err := s.network.Listen(s.address.target)
		if err != nil {
			return nil, &BusyError{Address: s.cfg.Address, Err: err}
		}
		return l, nil
	case unix:
		return listenUnix(ctx, s.cfg.Address, s.address.target)
	}
	return listenOn(ctx, "tcp", s.cfg.Address, s.address.target)
}

// listenOn opens a system listener and types the error.
func listenOn(ctx context.Context, network, address, target string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, network, target)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &BusyError{Address: address, Err: err}
	case err != nil:
		return nil, fmt.Errorf("server: listen on %s: %w", address, err)
	}
	return l, nil
}

// listenUnix opens a socket that only its owner can use. A socket file that nobody answers on is removed first: its
// server died. The folder is made private when it does not exist, because the socket has the mode of the umask for a
// moment.
func listenUnix(ctx context.Context, address, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("server: folder of %s: %w", address, err)
	}
	if err := removeStale(ctx, address, path); err != nil {
		return nil, err
	}
	l, err := listenOn(ctx, "unix", address, path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("server: mode of %s: %w", address, err), l.Close())
	}
	return l, nil
}

// removeStale removes a socket that nobody answers on. Anything else at the path is left alone and refused.
func removeStale(ctx context.Context, address, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("server: %s: %w", address, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("server: %s: the file there is not a socket and stays", address)
	}
	conn, err := (&net.Dialer{Timeout: staleTimeout}).DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return &BusyError{Address: address, Err: syscall.EADDRINUSE}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("server: %s: somebody may be serving there: %w", address, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("server: remove the left-over socket of %s: %w", address, err)
	}
	return nil
}
