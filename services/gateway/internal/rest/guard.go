package rest

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// guard refuses what a browser might be made to send: requests that reach the gateway under a foreign name, and requests of pages of another
// origin. Programs send no Origin and are not concerned by the latter.
func guard(cfg Config, next http.Handler) (http.Handler, error) {
	origins := http.NewCrossOriginProtection()
	for _, o := range cfg.AllowedOrigins {
		if err := origins.AddTrustedOrigin(o); err != nil {
			return nil, err
		}
	}
	own, _, err := net.SplitHostPort(cfg.Address)
	if err != nil {
		return nil, err
	}
	return origins.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(r.Host, own, cfg.AllowedHosts) {
			http.Error(w, "this gateway is not served under that host name; the setting allowed-hosts adds names", http.StatusMisdirectedRequest)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && slices.Contains(cfg.AllowedOrigins, origin) {
			allowOrigin(w, r, origin)
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})), nil
}

// hostAllowed accepts loopback names, literal addresses other than loopback only as the own one, and what the operator named.
func hostAllowed(host, own string, allowed []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" || name == strings.ToLower(own) || slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, name) }) {
		return true
	}
	ip := net.ParseIP(name)
	if ip == nil {
		return false
	}
	// An address can't be rebound by anyone's DNS. Served on every address, the gateway answers under each.
	listen := net.ParseIP(own)
	return ip.IsLoopback() || own == "" || listen != nil && listen.IsUnspecified()
}

func allowOrigin(w http.ResponseWriter, r *http.Request, origin string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
		h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
		h.Set("Access-Control-Max-Age", "600")
	}
}

// limitBody bounds request bodies. Client streams have no bound of their own: each of their messages has one.
func limitBody(most int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isClientStream(r.URL.Path) {
			r.Body = http.MaxBytesReader(w, r.Body, most)
		}
		next.ServeHTTP(w, r)
	})
}

// isClientStream names the calls whose body is a stream of messages.
func isClientStream(path string) bool {
	return strings.HasSuffix(path, ":upload") || strings.HasSuffix(path, ":exec") || strings.HasSuffix(path, ":import")
}
