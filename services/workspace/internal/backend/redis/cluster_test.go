package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest/manifesttest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// cluster starts a server that is a cluster of one node, which refuses calls whose keys are in several slots as a large one does.
func cluster(t testing.TB) string {
	t.Helper()
	url := testkit.RedisServer(t, "--databases", "1", "--cluster-enabled", "yes").URL
	o, err := client.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	admin := client.NewClient(o)
	defer admin.Close()
	if err := admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if info := admin.ClusterInfo(t.Context()).Val(); !strings.Contains(info, "cluster_state:ok") {
			return errors.New(info)
		}
		return nil
	})
	return url + "?addr=" + strings.TrimPrefix(url, "redis://")
}

func TestCluster(t *testing.T) {
	url, n := cluster(t), 0
	manifesttest.Run(testkit.Wrap(t), func(testkit.T) manifesttest.Replica {
		n++
		prefix := "p" + strings.Repeat("x", n) // a place of its own
		return func(t testkit.T) files.Store { return open(t, redis.Config{URL: url, Prefix: prefix}) }
	})
}
