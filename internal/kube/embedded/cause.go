package embedded

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
)

// cause is an error of the operating system that ends a control plane, and what to do about it. DIR is the data directory.
type cause struct {
	err    syscall.Errno
	remedy string
}

var causes = []cause{
	{syscall.ENOSPC, "free space on the disk of DIR, or choose another directory with --data-dir"},
	{syscall.EDQUOT, "delete files on the disk of DIR, or choose another directory with --data-dir"},
	{syscall.EROFS, "choose a directory that can be written to with --data-dir"},
	{syscall.EACCES, "DIR and its files must belong to the user who starts the control plane; or choose another directory with --data-dir"},
	{syscall.EADDRINUSE, "choose another port with --port"},
	{syscall.EMFILE, "raise the limit of open files (ulimit -n)"},
}

func lastCause(text string) (found cause, ok bool) {
	last := -1
	for _, c := range causes {
		if at := strings.LastIndex(text, c.err.Error()); at > last {
			last, found = at, c
		}
	}
	return found, last >= 0
}

func causeOf(err error) (found cause, ok bool) {
	i := slices.IndexFunc(causes, func(c cause) bool { return errors.Is(err, c.err) })
	if i < 0 {
		return cause{}, false
	}
	return causes[i], true
}

// A control plane needs at least this much space: some pages of etcd's files.
const probeBytes = 1 << 20

// It returns nothing if the directory can be written to.
func tryToWrite(dir string) (err error) {
	f, err := os.CreateTemp(dir, "probe")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// explain returns why a control plane has ended by itself: its own error, or a cause that it has named, or else the end of what it has said or
// logged. What was logged before it started, in the first bytes of the log, does not count.
func explain(dir, said string, before int64) string {
	reason, isError := strings.CutPrefix(said, program+": ")
	detail := ""
	c, known := lastCause(said)
	if !isError || strings.Contains(reason, "\n") {
		logged := readEnd(logFile(dir), before, maxExplained)
		if !known {
			c, known = lastCause(logged)
		}
		if !known {
			c, known = causeOf(tryToWrite(dir)) // if the disk is full, the log might lack it
		}
		if known { // stacks explain nothing more
			reason, detail = c.err.Error(), "\nits log is "+logFile(dir)
		} else {
			reason, detail = errExited.Error(), "\n"+cmp.Or(said, lastLines(logged))
		}
	}
	if known {
		reason += "; " + strings.ReplaceAll(c.remedy, "DIR", dir)
	}
	return reason + strings.TrimRight(detail, "\n")
}
