package queue

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no goroutine or timer is left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
