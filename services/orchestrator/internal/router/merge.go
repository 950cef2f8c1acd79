package router

import (
	"context"
	"encoding/base64"
	"encoding/json"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Page sizes of List and Glob, as the contract states them.
const (
	defaultPage = 500
	maxPage     = 5000
)

// position is how far one tree was read: a page token of that tree and the entries of its page that were given already.
type position struct {
	Token string `json:"t,omitempty"`
	Skip  int    `json:"s,omitempty"`
	Done  bool   `json:"d,omitempty"`
}

// token is the page token of a merged listing.
type token struct {
	Workspace position `json:"w"`
	Sandbox   position `json:"i"`
}

func parseToken(s string) (token, error) {
	var t token
	if s == "" {
		return t, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil || t.Workspace.Skip < 0 || t.Sandbox.Skip < 0 || t.Workspace.Skip > maxPage || t.Sandbox.Skip > maxPage {
		return token{}, errdefs.New(errdefs.ErrInvalidArgument, Domain, "TOKEN_INVALID", "the page token is not one of this listing").With("field", "page_token")
	}
	return t, nil
}

func (t token) String() string {
	if t.Workspace.Done && t.Sandbox.Done {
		return ""
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return "" // a struct of strings and numbers always marshals
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// page is one page of one tree.
type page struct {
	entries  []*fsv1.FileInfo
	next     string
	warnings []string
}

// fetch reads a page of one tree.
type fetch func(ctx context.Context, client fsv1.FilesystemServiceClient, pageToken string) (page, error)

// merged reads one page over both trees, ordered by path. Each tree gives only the paths that it owns: the sandbox also
// shows the layout, mounted read-only, and a bucket may hold files of another mode.
func (r *Router) merged(ctx context.Context, size int32, from string, get fetch) (page, error) {
	at, err := parseToken(from)
	if err != nil {
		return page{}, err
	}
	if size <= 0 {
		size = defaultPage
	}
	workspace := &source{client: r.workspace, at: at.Workspace, get: get, keep: Owns}
	sandbox := &source{client: r.sandbox, at: at.Sandbox, get: get, keep: func(p string) bool { return !Owns(p) }}
	var out page
	for len(out.entries) < int(min(size, maxPage)) {
		a, err := workspace.peek(ctx)
		if err != nil {
			return page{}, err
		}
		b, err := sandbox.peek(ctx)
		if err != nil {
			return page{}, err
		}
		switch {
		case a == nil && b == nil:
			out.warnings = append(workspace.warnings, sandbox.warnings...)
			return out, nil
		case b == nil || a != nil && a.GetPath() < b.GetPath():
			out.entries = append(out.entries, a)
			workspace.at.Skip++
		default:
			out.entries = append(out.entries, b)
			sandbox.at.Skip++
		}
	}
	out.next = token{workspace.at, sandbox.at}.String()
	out.warnings = append(workspace.warnings, sandbox.warnings...)
	return out, nil
}

// source reads one tree page by page.
type source struct {
	client   fsv1.FilesystemServiceClient
	get      fetch
	keep     func(path string) bool
	at       position
	loaded   bool
	current  page
	warnings []string
}

// peek gives the next entry without taking it; nil at the end.
func (s *source) peek(ctx context.Context) (*fsv1.FileInfo, error) {
	for !s.at.Done {
		if !s.loaded {
			p, err := s.get(ctx, s.client, s.at.Token)
			if err != nil {
				return nil, err
			}
			s.current, s.loaded = p, true
			s.warnings = append(s.warnings, p.warnings...)
		}
		for s.at.Skip < len(s.current.entries) {
			if e := s.current.entries[s.at.Skip]; s.keep(e.GetPath()) {
				return e, nil
			}
			s.at.Skip++
		}
		s.at = position{Token: s.current.next, Done: s.current.next == ""}
		s.loaded = false
	}
	return nil, nil
}
