package hold

import (
	"sync"
	"time"
)

// passing is how long Holds may be unreadable before that is logged: when the program starts,
// the API server doesn't serve their kind for a moment after its CustomResourceDefinition is
// there.
const passing = 5 * time.Second

// blindness is why Holds can't be read. It is logged once if it lasts.
type blindness struct {
	log func(reason, message string)

	mu      sync.Mutex
	message string
	timer   *time.Timer
}

// set says why Holds can't be read now; with the same message again, it goes on.
func (b *blindness) set(reason, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.message == message {
		return
	}
	b.stop()
	b.message = message
	b.timer = time.AfterFunc(passing, func() {
		if b.why() == message {
			b.log(reason, message)
		}
	})
}

// end says that Holds can be read.
func (b *blindness) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
	b.message = ""
}

func (b *blindness) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

// why is empty if Holds can be read.
func (b *blindness) why() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.message
}
