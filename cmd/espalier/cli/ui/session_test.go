package ui

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"
)

func TestThereAreNotTooManySessions(t *testing.T) {
	now := time.Now()
	s := &sessions{now: func() time.Time { return now }, all: map[string]*Session{}}
	check := func(context.Context) error { return nil }
	first, err := s.add(&Session{User: "first", Check: check})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxSessions - 1 {
		if _, err := s.add(&Session{User: strconv.Itoa(i), Check: check}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.add(&Session{User: "late", Check: check}); !errors.Is(err, errTooMany) {
		t.Errorf("the one that is too many: %v", err)
	}
	if s.find(first) == nil {
		t.Error("somebody else's login has ended the first")
	}
	now = now.Add(idleLimit)
	if _, err := s.add(&Session{User: "late", Check: check}); err != nil {
		t.Errorf("after the others were idle: %v", err)
	}
}

func TestASessionThatHasEndedOpensNoStream(t *testing.T) {
	s := &sessions{now: time.Now, all: map[string]*Session{}}
	session := &Session{User: "alice"}
	id, err := s.add(session)
	if err != nil {
		t.Fatal(err)
	}
	s.logOut(id)
	if s.open(session, "stream", &stream{stop: func() {}}) {
		t.Error("a request that was on its way has opened a stream")
	}
}
