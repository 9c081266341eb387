package shard

// Record is what a replica publishes.
type Record struct {
	ID string
	// View is the view by which the replica works. It is empty at first.
	View View
}

// Peer is another replica.
type Peer struct {
	Record
	// Expired says that its Lease was not renewed in time: it does not work any more.
	Expired bool
}

// State is what a replica knows.
type State struct {
	// Self is what this replica has published.
	Self Record
	// Read says that Peers were read after Self was published.
	Read bool
	// Peers are the other replicas. One that has left, or that was expelled, is not among them.
	Peers []Peer
	// Held are the slots on which this replica works.
	Held Set
}

// Step is what a replica does next. The parts are done in the order of the fields; a failure ends the step.
type Step struct {
	// Expel are the replicas whose records are deleted, unless they have been renewed meanwhile.
	Expel []string
	// Release are the slots on which this replica stops working. All work on them must have ended before
	// anything is published.
	Release Set
	// Publish is the view to publish; nil for none.
	Publish View
	// Take are the slots on which this replica begins to work.
	Take Set
}

// IsZero reports whether there is nothing to do until something changes.
func (s Step) IsZero() bool {
	return len(s.Expel) == 0 && s.Release.IsEmpty() && s.Publish == nil && s.Take.IsEmpty()
}

// Planner decides the steps of one replica. It caches assignments, which are expensive to compute. Its
// zero value is ready to use. It is not safe for concurrent use.
type Planner struct{ cache map[string]*Assignment }

// Next returns the next step: expel those whose Lease has expired, publish the view of all others, or take the slots that
// nobody else's view assigns to its replica. It is zero if there is nothing to do until something changes.
func (p *Planner) Next(s State) Step {
	defer p.dropUnused(s)
	ids := []string{s.Self.ID}
	var step Step
	for _, peer := range s.Peers {
		ids = append(ids, peer.ID)
		if peer.Expired {
			step.Expel = append(step.Expel, peer.ID)
		}
	}
	if len(step.Expel) > 0 {
		return step
	}
	view := NewView(ids...)
	own := p.assign(view).Of(s.Self.ID)
	if !view.Equal(s.Self.View) {
		return Step{Release: s.Held.Without(own), Publish: view}
	}
	if !s.Read {
		return Step{}
	}
	free := own.Without(s.Held)
	for _, peer := range s.Peers {
		free = free.Without(p.assign(peer.View).Of(peer.ID))
	}
	return Step{Take: free}
}

// Assigned returns the slots that a replica's view assigns to itself: it holds them, or takes them once others have
// released them.
func (p *Planner) Assigned(r Record) Set { return p.assign(r.View).Of(r.ID) }

func (p *Planner) assign(v View) *Assignment {
	key := v.String()
	if a, ok := p.cache[key]; ok {
		return a
	}
	if p.cache == nil {
		p.cache = map[string]*Assignment{}
	}
	a := v.Assign()
	p.cache[key] = a
	return a
}

// dropUnused drops the assignments of views that nobody has any more.
func (p *Planner) dropUnused(s State) {
	if len(p.cache) <= len(s.Peers)+2 {
		return
	}
	used := map[string]bool{s.Self.View.String(): true}
	for _, peer := range s.Peers {
		used[peer.View.String()] = true
	}
	for key := range p.cache {
		if !used[key] {
			delete(p.cache, key)
		}
	}
}
