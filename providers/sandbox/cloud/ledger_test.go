package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// history plays some life into a directory. It gives the ledger and how long that was
// after each call.
func history(t testing.TB) (dir string, ledger []byte, ends []int) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "cloud")
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	c, err := Open(dir, Options{Now: func() time.Time { return now }, Behaviours: map[Type]Behaviour{
		TypeCluster: {CreateTime: time.Hour, UpdateTime: time.Hour}, TypeBucket: {TokenTTL: time.Hour, DeleteLag: time.Hour, ReuseAfter: time.Hour},
	}})
	must(t, err)
	defer c.Close()
	create := func(name string, p Properties) {
		t.Helper()
		_, err := c.Create(CreateRequest{Scope: "dev", Name: name, Tags: map[string]string{"mark": name}, Properties: p, Token: name})
		must(t, err)
		ledger, err = os.ReadFile(filepath.Join(dir, "ledger"))
		must(t, err)
		ends = append(ends, len(ledger))
	}
	create("net", Network{CIDR: "10.0.0.0/16"})
	create("sub", Subnet{Network: "net", CIDR: "10.0.0.0/24"})
	create("role", Role{Trust: "x", Policies: []string{"read"}})
	create("prod", Cluster{Subnets: []string{"sub"}, Role: "role"})
	now = now.Add(time.Hour)
	create("logs", Bucket{})
	must(t, c.Inject(Fault{Verb: VerbCreate, Late: time.Hour}, Fault{Verb: VerbGet, Times: 3, Lose: Timeout}))
	_, err = c.Create(CreateRequest{Scope: "dev", Name: "late", Properties: Bucket{}})
	if CodeOf(err) != Timeout {
		t.Fatal(err)
	}
	_, err = c.Delete(DeleteRequest{Key: Key{TypeBucket, "dev", "logs"}})
	must(t, err)
	_, err = c.Update(UpdateRequest{Key: Key{TypeCluster, "dev", "prod"}, Properties: Cluster{Subnets: []string{"sub"}, Role: "role", Nodes: 2}})
	must(t, err)
	create("more", Bucket{Public: true})
	return dir, ledger, ends
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func text(t testing.TB, w *world) string {
	t.Helper()
	out, err := json.Marshal(w.whole())
	must(t, err)
	return string(out)
}

func TestWhatWasAnsweredSurvivesATornWrite(t *testing.T) {
	_, ledger, _ := history(t)
	begin := bytes.IndexByte(ledger, '\n') + 1
	begin += bytes.IndexByte(ledger[begin:], '\n') + 1
	w, _, err := load(ledger[:begin])
	must(t, err)
	want := text(t, w)
	for begin < len(ledger) {
		end := begin + bytes.IndexByte(ledger[begin:], '\n') + 1
		for _, n := range []int{begin, begin + 1, begin + 9, (begin + end) / 2, end - 2, end - 1} {
			w, good, err := load(ledger[:n])
			must(t, err)
			if good != int64(begin) || text(t, w) != want {
				t.Fatalf("cut after %d bytes, half a change has happened", n)
			}
		}
		w, good, err := load(ledger[:end])
		must(t, err)
		if now := text(t, w); good != int64(end) || now == want {
			t.Fatalf("the change that ends with byte %d hasn't happened", end)
		}
		begin, want = end, text(t, w)
	}
	for n := range bytes.IndexByte(ledger, '{') { // this much is never there alone
		if _, _, err := load(ledger[:n]); err == nil {
			t.Fatalf("%d bytes are a world", n)
		}
	}
}

func TestATornWriteIsCutOffBeforeTheNext(t *testing.T) {
	dir, ledger, _ := history(t)
	path := filepath.Join(dir, "ledger")
	must(t, os.WriteFile(path, ledger[:len(ledger)-7], 0o600))
	must(t, os.WriteFile(path+".new", ledger[:99], 0o600)) // and it was killed while it wrote anew before
	more := Key{TypeBucket, "dev", "more"}
	c, err := Open(dir, Options{})
	must(t, err)
	must(t, c.ClearFaults())
	if _, err = c.Get(more); CodeOf(err) != NotFound {
		t.Errorf("what was half written is there: %v", err)
	}
	_, err = c.Create(CreateRequest{Scope: "dev", Name: "more", Properties: Bucket{}})
	must(t, err)
	must(t, c.Close())
	c, err = Open(dir, Options{})
	must(t, err)
	_, err = c.Get(more)
	must(t, err)
	must(t, c.Close())
}

func TestEveryDamageIsSeen(t *testing.T) {
	_, ledger, _ := history(t)
	for n := 0; n < len(ledger)-1; n += 37 { // without its end the last line is a torn one
		damaged := bytes.Clone(ledger)
		damaged[n] ^= 0x11
		var damage *DamageError
		if _, _, err := load(damaged); !errors.As(err, &damage) || damage.Error() == "" {
			t.Fatalf("byte %d: %v", n, err)
		}
	}
}

func TestADamagedLedgerIsLeftAlone(t *testing.T) {
	dir, _, _ := history(t)
	path := filepath.Join(dir, "ledger")
	for _, garbage := range []string{"", "garbage", title, title + "\n", title + "00000000 null\n", title + string(frame([]byte("{}{}"))), title + string(frame([]byte(`{"serial":"one"}`)))} {
		must(t, os.WriteFile(path, []byte(garbage), 0o600))
		_, err := Open(dir, Options{})
		if damage := (*DamageError)(nil); !errors.As(err, &damage) {
			t.Errorf("%q: %v", garbage, err)
		}
		if still, _ := os.ReadFile(path); string(still) != garbage {
			t.Errorf("%q is now %q", garbage, still)
		}
	}
}

func TestOneAtATime(t *testing.T) {
	dir, _, _ := history(t)
	c, err := Open(dir, Options{})
	must(t, err)
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	must(t, c.Close())
	c, err = Open(dir, Options{})
	must(t, err)
	must(t, c.Close())
}

func TestNobodyElseReadsIt(t *testing.T) {
	dir, _, _ := history(t)
	for name, want := range map[string]os.FileMode{"": 0o700 | os.ModeDir, "ledger": 0o600, "lock": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s is %s", name, info.Mode())
		}
	}
}

func TestTheLedgerIsWrittenAnewWhenItIsMostlyHistory(t *testing.T) {
	dir, ledger, _ := history(t)
	path := filepath.Join(dir, "ledger")
	still := Options{Now: func() time.Time { return time.Time{} }} // the cloud's own time goes on from where it was
	c, err := Open(dir, still)
	must(t, err)
	c.Shorten(1)
	must(t, os.Mkdir(path+".new", 0o700)) // in its way
	update := func() {
		t.Helper()
		_, err := c.Update(UpdateRequest{Key: Key{TypeRole, "dev", "role"}, Properties: Role{Trust: "y"}})
		must(t, err)
	}
	update()
	if grown, _ := os.ReadFile(path); !bytes.HasPrefix(grown, ledger) {
		t.Error("what can't be written anew isn't what it was")
	}
	must(t, os.Remove(path+".new"))
	largest := int64(0)
	for range 200 {
		update()
		info, err := os.Stat(path)
		must(t, err)
		largest = max(largest, info.Size())
	}
	if c.ledger.base >= c.ledger.size || largest > 8*c.ledger.base+int64(len(ledger))*8 {
		t.Errorf("the ledger has %d bytes, was %d when it was new, and had %d", c.ledger.size, c.ledger.base, largest)
	}
	want := text(t, c.world)
	must(t, c.Close())
	c, err = Open(dir, still)
	must(t, err)
	if got := text(t, c.world); got != want {
		t.Errorf("%d bytes of world have become %d", len(want), len(got))
	}
	must(t, c.Close())
}

func TestACloudWhoseDiskFailsIsDown(t *testing.T) {
	dir, _, _ := history(t)
	c, err := Open(dir, Options{})
	must(t, err)
	key := Key{TypeRole, "dev", "role"}
	must(t, c.ledger.file.Close()) // as if it were torn out
	for range 2 {
		_, err = c.Delete(DeleteRequest{Key: Key{TypeBucket, "dev", "more"}})
		if CodeOf(err) != Unavailable || !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := c.Get(key); CodeOf(err) != Unavailable { // nobody may see what isn't on disk
		t.Errorf("got %v", err)
	}
	_ = c.Close()
	c, err = Open(dir, Options{})
	must(t, err)
	defer c.Close()
	must(t, c.ClearFaults())
	_, err = c.Get(Key{TypeBucket, "dev", "more"})
	must(t, err)
}

func TestReadsOfWhatDoesNotChangeWriteNothing(t *testing.T) {
	dir, _, _ := history(t)
	c, err := Open(dir, Options{})
	must(t, err)
	defer c.Close()
	must(t, c.ClearFaults())
	before := c.ledger.size
	for range 10 {
		_, err := c.Get(Key{TypeRole, "dev", "role"})
		must(t, err)
		_, err = c.List(Query{Type: TypeSubnet})
		must(t, err)
		_, err = c.Admin().Snapshot()
		must(t, err)
		c.NextChange()
	}
	if c.ledger.size != before {
		t.Errorf("%d bytes were written", c.ledger.size-before)
	}
}
