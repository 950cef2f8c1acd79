package rest

import (
	"net/http"

	"github.com/swaggest/swgui/v5emb"

	"github.com/gantry-agents/gantry/gen/openapi"
)

// addOpenAPI serves the description at /openapi.json and a page that shows it at /docs/. The page's assets are in the binary: it needs no network.
func addOpenAPI(mux *http.ServeMux) {
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openapi.JSON) // a caller that has left needs no answer
	})
	mux.Handle("GET /docs/", v5emb.New("Gantry", "/openapi.json", "/docs/"))
	mux.Handle("GET /{$}", http.RedirectHandler("/docs/", http.StatusFound))
}
