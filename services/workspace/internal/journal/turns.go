package journal

import "sync"

// Turns shares claims out among tenants: weighted round robin. Its zero value gives every tenant the weight 1.
type Turns struct {
	// Weight returns how many threads a tenant gets in its turn; below 1 counts as 1. Nil: 1 for all.
	Weight func(tenant string) int

	mu     sync.Mutex
	tenant string // whose turn it is
	left   int    // what is left of the turn
}

// Begin returns the tenant to begin with: the first at or after it in the order of names has the turn.
func (t *Turns) Begin() (tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tenant
}

// Share returns how many threads the tenant may take now, up to want.
func (t *Turns) Share(tenant string, want int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tenant != tenant || t.left < 1 {
		t.tenant, t.left = tenant, t.weight(tenant)
	}
	return min(t.left, want)
}

// Took says that the tenant took n threads and returns whether its turn is over, which it also is when it had no more (n below its share).
func (t *Turns) Took(tenant string, n, share int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left -= n
	if n < share || t.left < 1 {
		// The name after this one in the order of bytes. Names hold no control characters, and some databases take no NUL.
		t.tenant, t.left = tenant+"\x01", 0
	}
}

func (t *Turns) weight(tenant string) int {
	if t.Weight == nil {
		return 1
	}
	return max(1, t.Weight(tenant))
}
