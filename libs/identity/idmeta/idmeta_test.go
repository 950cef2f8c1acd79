package idmeta_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/identity/idmeta"
)

func TestRoundTrip(t *testing.T) {
	tests := map[string]identity.Identity{
		"all":       {Agent: "coder", User: "ana", Session: "s1", Scope: identity.ScopeAgent, RequestID: "r", Effect: "e1.x.y/z", Sandbox: "sb"},
		"odd ids":   {Agent: "a/b%20", User: "../Ü🙂 ~+", Session: "cid9+/Q=="},
		"anonymous": {Agent: "default", Session: "s"},
		"unset":     {Agent: "default", User: "ana", ScopeUnset: true},
	}
	for name, id := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, err := idmeta.NewOutgoing(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			md, _ := metadata.FromOutgoingContext(ctx)
			for key, values := range md {
				for _, value := range values {
					if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
						t.Errorf("%s = %q cannot be sent", key, value)
					}
				}
			}
			got, err := idmeta.Parse(md)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(id, got); diff != "" {
				t.Errorf("identity changed (-sent +received):\n%s", diff)
			}
		})
	}
}

func TestTheTenantIsNeverSent(t *testing.T) {
	ctx, err := idmeta.NewOutgoing(t.Context(), identity.Identity{Tenant: "acme", User: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	for key, values := range md {
		if strings.Contains(strings.Join(values, " "), "acme") {
			t.Errorf("the tenant is sent as %s", key)
		}
	}
}

func TestNewOutgoingReplacesTheIdentityAndKeepsTheRest(t *testing.T) {
	ctx := metadata.AppendToOutgoingContext(t.Context(), idmeta.KeyUser, "ben", idmeta.KeySession, "s9", "authorization", "Bearer x")
	ctx, err := idmeta.NewOutgoing(ctx, identity.Identity{User: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	if got := md.Get(idmeta.KeyUser); len(got) != 1 || got[0] != "ana" {
		t.Errorf("user = %v", got)
	}
	if got := md.Get(idmeta.KeySession); len(got) != 0 {
		t.Errorf("session of another identity stayed: %v", got)
	}
	if got := md.Get("authorization"); len(got) != 1 {
		t.Errorf("authorization = %v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]metadata.MD{
		"twice":           metadata.Pairs(idmeta.KeyUser, "ana", idmeta.KeyUser, "ana"),
		"empty":           metadata.Pairs(idmeta.KeyUser, ""),
		"half an escape":  metadata.Pairs(idmeta.KeyUser, "a%4"),
		"no hex":          metadata.Pairs(idmeta.KeyUser, "a%zz"),
		"raw UTF-8":       metadata.Pairs(idmeta.KeyUser, "Ü"),
		"newline":         metadata.Pairs(idmeta.KeySession, "a%0Ab"),
		"NUL":             metadata.Pairs(idmeta.KeyAgent, "%00"),
		"not UTF-8":       metadata.Pairs(idmeta.KeyUser, "%FF"),
		"257 bytes":       metadata.Pairs(idmeta.KeyUser, strings.Repeat("a", 257)),
		"300 bytes":       metadata.Pairs(idmeta.KeyEffect, strings.Repeat("a", 300)),
		"no such scope":   metadata.Pairs(idmeta.KeyScope, "everything"),
		"over 6 KiB":      metadata.Pairs(idmeta.KeyAuthorization, "Bearer "+strings.Repeat("x", 6<<10)),
		"over 6 KiB, too": metadata.Pairs("gantry-later", strings.Repeat("x", 6<<10)),
	}
	for name, md := range tests {
		t.Run(name, func(t *testing.T) {
			if id, err := idmeta.Parse(md); errdefs.ReasonOf(err) != identity.ReasonMalformed {
				t.Errorf("Parse = %+v, %v; want IDENTITY_MALFORMED", id, err)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	tests := map[string]struct {
		md   metadata.MD
		want identity.Identity
	}{
		"nothing":            {nil, identity.Identity{Agent: "default", ScopeUnset: true}},
		"typed by hand":      {metadata.Pairs(idmeta.KeyUser, "ana+x@example.org"), identity.Identity{Agent: "default", User: "ana+x@example.org", ScopeUnset: true}},
		"lower-case hex":     {metadata.Pairs(idmeta.KeyUser, "%c3%9c"), identity.Identity{Agent: "default", User: "Ü", ScopeUnset: true}},
		"longest id":         {metadata.Pairs(idmeta.KeyUser, strings.Repeat("%C3%9C", 128)), identity.Identity{Agent: "default", User: strings.Repeat("Ü", 128), ScopeUnset: true}},
		"others' keys":       {metadata.Pairs("x-big", strings.Repeat("x", 8<<10)), identity.Identity{Agent: "default", ScopeUnset: true}},
		"composed differs":   {metadata.Pairs(idmeta.KeyUser, "U%CC%88"), identity.Identity{Agent: "default", User: "U\u0308", ScopeUnset: true}},
		"scope user, stated": {metadata.Pairs(idmeta.KeyScope, "user"), identity.Identity{Agent: "default"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := idmeta.Parse(tt.md)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewOutgoingRefuses(t *testing.T) {
	long := strings.Repeat("Ü", 128)
	tests := map[string]identity.Identity{
		"malformed": {User: "a\nb"},
		"over 6 KiB with the credential": {
			Agent: long, User: long, Session: long, RequestID: long, Effect: long, Sandbox: long,
		},
	}
	for name, id := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := metadata.AppendToOutgoingContext(t.Context(), idmeta.KeyAuthorization, "Bearer "+strings.Repeat("x", 2<<10))
			if _, err := idmeta.NewOutgoing(ctx, id); errdefs.ReasonOf(err) != identity.ReasonMalformed {
				t.Errorf("got %v, want IDENTITY_MALFORMED", err)
			}
		})
	}
}

func FuzzPercent(f *testing.F) {
	for _, text := range []string{"", "ana", "Ü🙂", "%", "a%20b", "\x00\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := idmeta.Decode(idmeta.Encode(text)); err != nil || got != text {
			t.Fatalf("Decode(Encode(%q)) = %q, %v", text, got, err)
		}
	})
}
