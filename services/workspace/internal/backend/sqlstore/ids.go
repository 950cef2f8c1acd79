package sqlstore

import (
	"context"
	"encoding/json"
	"sync"
)

// ids are numbers of contents that nobody has, fetched many at once: a row whose number is known beforehand needs no round trip of its own.
type ids struct {
	mu   sync.Mutex
	free []int64
}

// take returns a number; 0 when there is none left.
func (i *ids) take() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.free) == 0 {
		return 0
	}
	id := i.free[len(i.free)-1]
	i.free = i.free[:len(i.free)-1]
	return id
}

func (i *ids) add(more []int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.free = append(i.free, more...)
}

// nextID returns a number for a row of contents; 0 where the database gives numbers to rows as they are inserted.
func (t *tx) nextID(ctx context.Context) (int64, error) {
	statement := t.store.db.Dialect().NextIDs
	if statement == "" {
		return 0, nil
	}
	if id := t.store.ids.take(); id != 0 {
		return id, nil
	}
	var more []int64
	err := t.q.Query(ctx, statement, func(row Row) error {
		var id int64
		err := row.Scan(&id)
		more = append(more, id)
		return err
	})
	if err != nil || len(more) == 0 {
		return 0, err
	}
	t.store.ids.add(more[1:])
	return more[0], nil
}

// JSONTexts and JSONNumbers are lists as JSON arrays, for a database that takes no lists.
func JSONTexts(list []string) any { return asJSON(list) }

// JSONNumbers is [JSONTexts] for numbers.
func JSONNumbers(list []int64) any { return asJSON(list) }

func asJSON(list any) string {
	out, _ := json.Marshal(list) // texts and numbers always encode
	return string(out)
}
