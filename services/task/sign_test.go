package task_test

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gantry-agents/gantry/libs/access"
)

// sign makes a client's token that is good for an hour.
func sign(t *testing.T, secret string, claims access.ClientClaims) string {
	t.Helper()
	claims.ExpiresAt = jwt.NewNumericDate(time.Now().Add(time.Hour))
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return token
}
