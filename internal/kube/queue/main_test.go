package queue

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines and timers that were left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
