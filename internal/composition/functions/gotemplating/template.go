package gotemplating

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// rootName is the name of the template that contains all others, in errors too.
const rootName = "manifests"

// The functions that instrument adds calls of. They are defined after the text is parsed, so a text cannot call them.
const (
	stepFunction  = "step"  // at the beginning of each iteration
	enterFunction = "enter" // at the beginning of each template, with its levels
	leaveFunction = "leave" // at its end
	printFunction = "value" // at the end of each pipeline that is printed
)

// parse parses templates so that executing them is bounded.
func (e *execution) parse(in *input, text string) (*template.Template, error) {
	t := template.New(rootName)
	if in.Delims.Left != "" && in.Delims.Right != "" {
		t.Delims(in.Delims.Left, in.Delims.Right)
	}
	t.Funcs(e.functions(t))
	if _, err := t.Parse(text); err != nil {
		for _, name := range unavailable {
			if strings.HasSuffix(err.Error(), "function "+strconv.Quote(name)+" not defined") {
				return nil, fmt.Errorf("%w: templates have no access to the environment and the network of the controllers", err)
			}
		}
		return nil, err
	}
	t.Option(in.Options...)
	for _, one := range t.Templates() {
		if one.Tree == nil || one.Root == nil {
			continue
		}
		i := instrument{}
		i.list(one.Root, 1)
		if i.deepest > maxBlocks {
			return nil, fmt.Errorf("template %q has blocks or brackets in more than %d levels", one.Name(), maxBlocks)
		}
		e.usesClock = e.usesClock || i.usesClock
		levels := &parse.NumberNode{NodeType: parse.NodeNumber, IsInt: true, Int64: int64(i.deepest), Text: strconv.Itoa(i.deepest)}
		one.Root.Nodes = append(append([]parse.Node{actionCalling(one.Root, enterFunction, levels)}, one.Root.Nodes...), actionCalling(one.Root, leaveFunction, levels))
	}
	return t.Funcs(template.FuncMap{
		stepFunction:  func() (string, error) { return "", e.spend(stepWork) },
		enterFunction: e.enter,
		leaveFunction: e.leave,
		printFunction: e.value,
	}), nil
}

func (e *execution) enter(levels int) (string, error) {
	if e.levels += levels; e.levels > maxLevels {
		return "", errLevels
	}
	return "", e.spend(stepWork)
}

func (e *execution) leave(levels int) string {
	e.levels -= levels
	return ""
}

// value returns the value, which is printed next.
func (e *execution) value(v any) (any, error) {
	n, err := e.measure(reflect.ValueOf(v), 0)
	if err == nil {
		err = e.spend(n)
	}
	return v, err
}

// instrument adds calls to a parsed template.
type instrument struct {
	// deepest is the deepest level of a block or bracket.
	deepest int
	// usesClock says that the template calls a function that reads the clock.
	usesClock bool
}

func (i *instrument) list(l *parse.ListNode, level int) {
	if i.deepest = max(i.deepest, level); l == nil || level > maxBlocks {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			i.pipe(n.Pipe, level)
			if len(n.Pipe.Decl) == 0 {
				n.Pipe.Cmds = append(n.Pipe.Cmds, command(n, printFunction))
			}
		case *parse.IfNode:
			i.branch(&n.BranchNode, level)
		case *parse.WithNode:
			i.branch(&n.BranchNode, level)
		case *parse.RangeNode:
			i.branch(&n.BranchNode, level)
			n.List.Nodes = append([]parse.Node{actionCalling(n, stepFunction)}, n.List.Nodes...)
		case *parse.TemplateNode:
			i.pipe(n.Pipe, level)
		}
	}
}

func (i *instrument) branch(b *parse.BranchNode, level int) {
	i.pipe(b.Pipe, level)
	i.list(b.List, level+1)
	i.list(b.ElseList, level+1)
}

func (i *instrument) pipe(p *parse.PipeNode, level int) {
	if i.deepest = max(i.deepest, level); p == nil || level > maxBlocks {
		return
	}
	for _, c := range p.Cmds {
		for _, arg := range c.Args {
			if chain, is := arg.(*parse.ChainNode); is {
				arg = chain.Node
			}
			switch arg := arg.(type) {
			case *parse.PipeNode:
				i.pipe(arg, level+1)
			case *parse.IdentifierNode:
				i.usesClock = i.usesClock || arg.Ident == "now" || arg.Ident == "ago"
			}
		}
	}
}

// actionCalling is an action that calls a function, in the place of a node.
func actionCalling(at parse.Node, function string, args ...parse.Node) *parse.ActionNode {
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: at.Position(), Cmds: []*parse.CommandNode{command(at, function, args...)}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: at.Position(), Pipe: pipe}
}

func command(at parse.Node, function string, args ...parse.Node) *parse.CommandNode {
	name := parse.NewIdentifier(function).SetPos(at.Position())
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: at.Position(), Args: append([]parse.Node{name}, args...)}
}
