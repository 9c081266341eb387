package transform

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type node struct {
	// op is what it does: an operator, or one of the words below.
	op   string
	name string
	// value is a literal's: a *regexp.Regexp for a regular expression.
	value any
	args  []*node
	// names are the keys of an object.
	names []string
}

// Words for node.op.
const (
	opLiteral     = "literal"
	opField       = "field"
	opVariable    = "variable"
	opContext     = "context"
	opCall        = "call"
	opBlock       = "block"
	opArray       = "array"
	opObject      = "object"
	opIndex       = "index"
	opPath        = "path"
	opConditional = "conditional"
	opAssign      = "assign"
	opNegate      = "negate"
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenVariable
	tokenString
	tokenNumber
	tokenRegexp
	tokenOperator
)

type token struct {
	kind tokenKind
	text string
}

var errUnsupported = errors.New("the expression is not supported")

type parser struct {
	rest  string
	next  token
	depth int
}

func parse(text string) (n *node, err error) {
	p := &parser{rest: text}
	if err := p.advance(true); err != nil {
		return nil, err
	}
	if n, err = p.expression(0); err != nil {
		return nil, err
	}
	if p.next.kind != tokenEnd {
		return nil, fmt.Errorf("%w: %q is not expected", errUnsupported, p.next.text)
	}
	return n, nil
}

// operators, the longer ones first.
var operators = []string{"~>", ":=", "!=", "<=", ">=", "..", "?", ":", ";", ",", "(", ")", "[", "]", "{", "}", ".", "=", "<", ">", "+", "-", "*", "/", "%", "&"}

// precedence of binary operators.
var precedence = map[string]int{
	":=": 1, "?": 2, "or": 3, "and": 4, "=": 5, "!=": 5, "<": 5, ">": 5, "<=": 5, ">=": 5, "in": 5,
	"&": 6, "+": 7, "-": 7, "*": 8, "/": 8, "%": 8, "[": 9, ".": 9,
}

// A slash begins a regular expression where a value is expected.
func (p *parser) advance(wantsValue bool) error {
	p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
	if p.rest == "" {
		p.next = token{}
		return nil
	}
	switch c := p.rest[0]; {
	case c == '"' || c == '\'':
		return p.readString(c)
	case c == '/' && wantsValue:
		return p.readRegexp()
	case c >= '0' && c <= '9':
		p.take(tokenNumber, func(r rune) bool { return unicode.IsDigit(r) })
		if len(p.rest) > 1 && p.rest[0] == '.' && unicode.IsDigit(rune(p.rest[1])) {
			whole := p.next.text
			p.rest = p.rest[1:]
			p.take(tokenNumber, func(r rune) bool { return unicode.IsDigit(r) })
			p.next.text = whole + "." + p.next.text
		}
		return nil
	case c == '$':
		p.rest = p.rest[1:]
		p.take(tokenVariable, isNameRune)
		return nil
	case isNameRune(rune(c)):
		p.take(tokenName, isNameRune)
		return nil
	}
	for _, op := range operators {
		if strings.HasPrefix(p.rest, op) {
			p.rest, p.next = p.rest[len(op):], token{tokenOperator, op}
			return nil
		}
	}
	return fmt.Errorf("%w: %q", errUnsupported, p.rest[:1])
}

func isNameRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func (p *parser) take(kind tokenKind, is func(rune) bool) {
	end := strings.IndexFunc(p.rest, func(r rune) bool { return !is(r) })
	if end < 0 {
		end = len(p.rest)
	}
	p.next, p.rest = token{kind, p.rest[:end]}, p.rest[end:]
}

func (p *parser) readString(quote byte) error {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.next, p.rest = token{tokenString, b.String()}, p.rest[i+1:]
			return nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			if at := strings.IndexByte("bfnrt", p.rest[i]); at >= 0 {
				b.WriteByte("\b\f\n\r\t"[at])
			} else if p.rest[i] == 'u' {
				return fmt.Errorf("%w: an escaped code point", errUnsupported)
			} else {
				b.WriteByte(p.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return fmt.Errorf("%w: a string does not end", errUnsupported)
}

func (p *parser) readRegexp() error {
	isEscaped, inClass := false, false
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case isEscaped:
			isEscaped = false
		case c == '\\':
			isEscaped = true
		case c == '[':
			inClass = true
		case c == ']':
			inClass = false
		case c == '/' && !inClass:
			source := strings.ReplaceAll(p.rest[1:i], `\/`, "/")
			p.rest = p.rest[i+1:]
			flags := ""
			for p.rest != "" && strings.IndexByte("im", p.rest[0]) >= 0 {
				flags, p.rest = flags+p.rest[:1], p.rest[1:]
			}
			if flags != "" {
				source = "(?" + flags + ")" + source
			}
			p.next = token{tokenRegexp, source}
			return nil
		}
	}
	return fmt.Errorf("%w: a regular expression does not end", errUnsupported)
}

// expression reads an expression of operators that bind tighter than level.
func (p *parser) expression(level int) (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("%w: it is nested too deep", errUnsupported)
	}
	defer func() { p.depth-- }()
	left, err := p.primary()
	for err == nil {
		op := p.next.text
		binds, isBinary := precedence[op]
		if !isBinary || binds <= level || p.next.kind != tokenOperator && p.next.kind != tokenName {
			return left, nil
		}
		left, err = p.binary(left, op, binds)
	}
	return nil, err
}

func (p *parser) binary(left *node, op string, binds int) (*node, error) {
	if err := p.advance(true); err != nil {
		return nil, err
	}
	switch op {
	case "[":
		index, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		return &node{op: opIndex, args: []*node{left, index}}, p.expect("]", false)
	case "?":
		return p.conditional(left)
	case ":=":
		right, err := p.expression(binds - 1)
		if left.op != opVariable {
			return nil, fmt.Errorf("%w: an assignment to something else than a variable", errUnsupported)
		}
		return &node{op: opAssign, name: left.name, args: []*node{right}}, err
	case ".":
		right, err := p.expression(binds)
		return &node{op: opPath, args: []*node{left, right}}, err
	}
	right, err := p.expression(binds)
	return &node{op: op, args: []*node{left, right}}, err
}

func (p *parser) conditional(condition *node) (*node, error) {
	then, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	n := &node{op: opConditional, args: []*node{condition, then}}
	if p.next.text != ":" || p.next.kind != tokenOperator {
		return n, nil
	}
	if err := p.advance(true); err != nil {
		return nil, err
	}
	otherwise, err := p.expression(1)
	n.args = append(n.args, otherwise)
	return n, err
}

func (p *parser) expect(op string, wantsValue bool) error {
	if p.next.kind != tokenOperator || p.next.text != op {
		return fmt.Errorf("%w: %q is missing", errUnsupported, op)
	}
	return p.advance(wantsValue)
}

func (p *parser) primary() (*node, error) {
	t := p.next
	switch {
	case t.kind == tokenOperator && (t.text == "(" || t.text == "["):
		return p.list(t.text)
	case t.kind == tokenOperator && t.text == "{":
		return p.object()
	case t.kind == tokenOperator && t.text == "-":
		if err := p.advance(true); err != nil {
			return nil, err
		}
		arg, err := p.expression(8)
		return &node{op: opNegate, args: []*node{arg}}, err
	case t.kind == tokenVariable:
		return p.variable(t.text)
	}
	n, err := literal(t)
	if err != nil {
		return nil, err
	}
	return n, p.advance(false)
}

func literal(t token) (*node, error) {
	switch t.kind {
	case tokenString:
		if !utf8.ValidString(t.text) {
			return nil, errUnsupported
		}
		return &node{op: opLiteral, value: t.text}, nil
	case tokenNumber:
		f, err := strconv.ParseFloat(t.text, 64)
		return &node{op: opLiteral, value: f}, err
	case tokenRegexp:
		re, err := regexp.Compile(t.text) // which lacks some of what the reference has, such as (?!
		return &node{op: opLiteral, value: re}, err
	case tokenName:
		switch t.text {
		case "true", "false":
			return &node{op: opLiteral, value: t.text == "true"}, nil
		case "null":
			return &node{op: opLiteral}, nil
		case "function":
			return nil, fmt.Errorf("%w: it defines a function", errUnsupported)
		}
		return &node{op: opField, name: t.text}, nil
	default:
		return nil, fmt.Errorf("%w: %q is not expected", errUnsupported, t.text)
	}
}

func (p *parser) variable(name string) (*node, error) {
	if err := p.advance(false); err != nil {
		return nil, err
	}
	switch {
	case p.next.kind == tokenOperator && p.next.text == "(":
		list, err := p.list("(")
		if err != nil {
			return nil, err
		}
		if functions[name] == nil {
			return nil, fmt.Errorf("%w: the function $%s", errUnsupported, name)
		}
		return &node{op: opCall, name: name, args: list.args}, nil
	case name == "":
		return &node{op: opContext}, nil
	}
	return &node{op: opVariable, name: name}, nil
}

func (p *parser) list(open string) (*node, error) {
	n, end := &node{op: opBlock}, ")"
	if open == "[" {
		n.op, end = opArray, "]"
	}
	if err := p.advance(true); err != nil {
		return nil, err
	}
	for p.next.kind != tokenOperator || p.next.text != end {
		item, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, item)
		if p.next.kind == tokenOperator && (p.next.text == "," || p.next.text == ";" && open == "(") {
			if err := p.advance(true); err != nil {
				return nil, err
			}
		} else if p.next.text != end {
			return nil, fmt.Errorf("%w: %q is not expected", errUnsupported, p.next.text)
		}
	}
	return n, p.advance(false)
}

func (p *parser) object() (*node, error) {
	n := &node{op: opObject}
	if err := p.advance(true); err != nil {
		return nil, err
	}
	for p.next.kind != tokenOperator || p.next.text != "}" {
		if p.next.kind != tokenString {
			return nil, fmt.Errorf("%w: a key that is not a string", errUnsupported)
		}
		n.names = append(n.names, p.next.text)
		if err := p.advance(false); err != nil {
			return nil, err
		}
		if err := p.expect(":", true); err != nil {
			return nil, err
		}
		value, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, value)
		if p.next.kind == tokenOperator && p.next.text == "," {
			if err := p.advance(true); err != nil {
				return nil, err
			}
		} else if p.next.text != "}" {
			return nil, fmt.Errorf("%w: %q is not expected", errUnsupported, p.next.text)
		}
	}
	return n, p.advance(false)
}
