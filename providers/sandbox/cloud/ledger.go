package cloud

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ledger is the file that holds a world: a line that says what it is, a line with the
// world as it was, and a line for each change since. A line is written at once, with a
// checksum in front; a process that is killed leaves at worst a last line without its
// end, of which nobody was told.
//
// A power failure can cost the latest lines: they are handed to the system, which
// outlives the process, and not forced to the disk.
type ledger struct {
	path string
	file *os.File
	// size is how long the file is, base how long when it was written last as a whole,
	// both in bytes; from limit on it may be written anew.
	size, base, limit int64
}

// title is the first line. What reads it reads this format only.
const title = "espalier sandbox cloud, format 1\n"

// openLedger reads the world in a directory, or begins one. The directory is locked.
func openLedger(dir string) (*world, *ledger, error) {
	l := &ledger{path: filepath.Join(dir, "ledger"), limit: 1 << 20}
	data, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		w := newWorld()
		return w, l, l.renew(w.whole())
	}
	if err != nil {
		return nil, nil, err
	}
	w, good, err := load(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", l.path, err)
	}
	if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return nil, nil, err
	}
	if err := l.file.Truncate(good); err != nil { // what follows a line without its end would make it garbage
		return nil, nil, errors.Join(err, l.close())
	}
	l.size, l.base = good, 0
	return w, l, nil
}

// write appends a change. After an error nobody knows how much of it is there.
func (l *ledger) write(c change) error {
	text, err := line(c)
	if err != nil {
		return err
	}
	n, err := l.file.Write(text)
	l.size += int64(n)
	return err
}

// long says that the ledger is mostly history.
func (l *ledger) long() bool { return l.size > l.limit && l.size/4 > l.base }

// rewrite replaces the history by what came of it. If that fails, the ledger stays as it
// is, which is as true, and grows for a while before the next attempt.
func (l *ledger) rewrite(whole change) {
	if l.renew(whole) != nil {
		l.base = l.size
	}
}

// renew writes a ledger beside the old one and puts it in its place. At each moment
// there is one of them, whole.
func (l *ledger) renew(whole change) (err error) {
	text, err := line(whole)
	if err != nil {
		return err
	}
	text = append([]byte(title), text...)
	file, err := os.OpenFile(l.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync() // or the new name could come to the disk before what it names
	}
	if err == nil {
		err = os.Rename(l.path+".new", l.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if l.file != nil {
		_ = l.file.Close() // nothing in it counts any more
	}
	l.file, l.size, l.base = file, int64(len(text)), int64(len(text))
	return nil
}

func (l *ledger) close() error { return l.file.Close() }
