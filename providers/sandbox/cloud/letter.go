package cloud

import (
	"fmt"
	"time"
)

// letter is a call whose caller has given up: it arrives when nobody expects it any
// more.
type letter struct {
	Number  int64     `json:"number"`
	Lands   time.Time `json:"lands"`
	Request request   `json:"request"`
	// Fault is what befalls the call when it arrives.
	Fault Fault `json:"fault"`
}

func (l letter) id() string { return letterID(l.Number) }

func letterID(number int64) string { return fmt.Sprintf("%08d", number) }

// post sends a call that arrives later.
func (w *world) post(q request, f Fault, now time.Time) {
	w.Letter++
	l := letter{Number: w.Letter, Lands: now.Add(f.Late), Request: q, Fault: f}
	w.letters.put(l)
	w.agenda.add(event{at: l.Lands, what: land, number: l.Number})
}

// open has a letter's effect, if it has one: it is judged by what there is on the day
// that it arrives.
func (w *world) open(l letter) {
	w.letters.drop(l.id())
	e := l.Request.entry(l.Lands)
	e.Late = true
	_, err := w.do(l.Request, l.Fault, l.Lands, &e)
	e.Code = CodeOf(err)
	w.landed = append(w.landed, e)
}
