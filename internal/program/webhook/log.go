package webhook

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// logInterval is for each message, however many requests cause it.
const logInterval = 10 * time.Second

// limitLog returns a logger that logs each message at most once in logInterval, with the number of messages omitted
// since.
func limitLog(log logr.Logger) logr.Logger {
	sink := log.GetSink()
	if sink == nil {
		return log
	}
	return log.WithSink(limitedSink{LogSink: sink, messages: &messages{last: map[string]*loggedMessage{}}})
}

type limitedSink struct {
	logr.LogSink
	messages *messages
}

// messages are the logged ones, by their text, which is constant.
type messages struct {
	mu   sync.Mutex
	last map[string]*loggedMessage
}

type loggedMessage struct {
	at      time.Time
	omitted int
}

// allow reports whether a message is logged now, and how many of its kind were not.
func (m *messages) allow(message string) (omitted int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	last := m.last[message]
	switch {
	case last == nil:
		m.last[message] = &loggedMessage{at: now}
		return 0, true
	case now.Sub(last.at) < logInterval:
		last.omitted++
		return 0, false
	}
	omitted, last.at, last.omitted = last.omitted, now, 0
	return omitted, true
}

func (s limitedSink) Info(level int, message string, keysAndValues ...any) {
	if omitted, ok := s.messages.allow(message); ok {
		s.LogSink.Info(level, message, withOmitted(keysAndValues, omitted)...)
	}
}

func (s limitedSink) Error(err error, message string, keysAndValues ...any) {
	if omitted, ok := s.messages.allow(message); ok {
		s.LogSink.Error(err, message, withOmitted(keysAndValues, omitted)...)
	}
}

func (s limitedSink) WithValues(keysAndValues ...any) logr.LogSink {
	return limitedSink{s.LogSink.WithValues(keysAndValues...), s.messages}
}

func (s limitedSink) WithName(name string) logr.LogSink {
	return limitedSink{s.LogSink.WithName(name), s.messages}
}

func withOmitted(keysAndValues []any, omitted int) []any {
	if omitted == 0 {
		return keysAndValues
	}
	return append(keysAndValues[:len(keysAndValues):len(keysAndValues)], "omitted", omitted)
}
