package jinja

// block reads statements up to a tag that it does not know: an end tag, else or elif.
func (p *parser) block() []stmt {
	p.enter()
	defer p.leave()
	var out []stmt
	for {
		switch {
		case p.at(tokData):
			out = append(out, dataStmt{p.next().text})
		case p.at(tokExpr):
			p.next()
			e := p.expr()
			p.end()
			out = append(out, printStmt{e})
		case p.at(tokStmt):
			s, ok := p.statement()
			if !ok {
				return out
			}
			if s != nil {
				out = append(out, s)
			}
		default:
			return out
		}
	}
}

func (p *parser) end() { p.want(tokEnd, "the end of the tag") }

// close reads {% name %}.
func (p *parser) close(name string, from int) {
	if !p.at(tokStmt) || p.peekName() != name {
		fail("line %d: block is not closed by {%% %s %%}, found %s", from, name, shorten(p.peekName()))
	}
	p.i += 2
	p.end()
}

func (p *parser) statement() (s stmt, ok bool) {
	line, name := p.line(), p.peekName()
	switch name {
	case "for", "if", "set", "macro", "call", "filter", "generation", "break", "continue", "do":
		p.i += 2
	}
	switch name {
	case "for":
		return p.forStmt(line), true
	case "if":
		return p.ifStmt(line), true
	case "set":
		return p.setStmt(line), true
	case "macro":
		return p.macroStmt(line), true
	case "call":
		return p.callStmt(line), true
	case "filter":
		f := p.filter(nil).(filterExpr)
		p.end()
		b := p.block()
		p.close("endfilter", line)
		return filterStmt{f, b}, true
	case "generation": // marks what the model wrote, for training
		p.end()
		b := p.block()
		p.close("endgeneration", line)
		return groupStmt{b}, true
	case "break", "continue":
		p.end()
		return jumpStmt{name == "break"}, true
	case "do":
		e := p.expr()
		p.end()
		return doStmt{e}, true
	case "include", "import", "from", "extends":
		fail("line %d: {%% %s %%} is not allowed: a chat template reads no files", line, name)
	case "":
		fail("line %d: expected the name of a statement", line)
	}
	return nil, false
}

func (p *parser) names() []string {
	paren := p.acceptOp("(")
	out := []string{p.want(tokName, "a name").text}
	for p.acceptOp(",") {
		out = append(out, p.want(tokName, "a name").text)
	}
	if paren {
		p.wantOp(")")
	}
	return out
}

func (p *parser) forStmt(line int) stmt {
	f := forStmt{names: p.names()}
	if !p.acceptWord("in") {
		fail("line %d: expected \"in\", found %s", line, p.found())
	}
	f.over = p.or()
	if p.acceptWord("if") {
		f.cond = p.expr()
	}
	f.recursive = p.acceptWord("recursive")
	p.end()
	f.body = p.block()
	if p.peekName() == "else" {
		p.close("else", line)
		f.empty = p.block()
	}
	p.close("endfor", line)
	return &f
}

func (p *parser) ifStmt(line int) stmt {
	var s ifStmt
	for {
		c := p.expr()
		p.end()
		s.conds, s.bodies = append(s.conds, c), append(s.bodies, p.block())
		if p.peekName() != "elif" || !p.at(tokStmt) {
			break
		}
		p.i += 2
	}
	if p.at(tokStmt) && p.peekName() == "else" {
		p.close("else", line)
		s.other = p.block()
	}
	p.close("endif", line)
	return s
}

func (p *parser) setStmt(line int) stmt {
	s := setStmt{names: p.names(), line: line}
	if len(s.names) == 1 && p.acceptOp(".") {
		s.attr = p.want(tokName, "a name").text
	}
	if p.acceptOp("=") {
		e := p.expr()
		if p.acceptOp(",") {
			l := listExpr{[]expr{e}}
			for !p.at(tokEnd) {
				l.items = append(l.items, p.expr())
				if !p.acceptOp(",") {
					break
				}
			}
			e = l
		}
		s.val = e
		p.end()
		return s
	}
	e := expr(bodyExpr{})
	for p.acceptOp("|") {
		e = p.filter(e)
	}
	p.end()
	body := p.block()
	p.close("endset", line)
	s.val, s.body = e, body
	return s
}

// params reads the parameters of a macro.
func (p *parser) params() (names []string, defaults []expr) {
	p.wantOp("(")
	for !p.acceptOp(")") {
		names = append(names, p.want(tokName, "a name").text)
		var d expr
		if p.acceptOp("=") {
			d = p.expr()
		}
		defaults = append(defaults, d)
		if !p.acceptOp(",") {
			p.wantOp(")")
			break
		}
	}
	return names, defaults
}

func (p *parser) macroStmt(line int) stmt {
	m := &macroStmt{name: p.want(tokName, "a name").text}
	m.params, m.defaults = p.params()
	p.end()
	m.body = p.block()
	p.close("endmacro", line)
	return m
}

func (p *parser) callStmt(line int) stmt {
	m := &macroStmt{name: "caller"}
	if p.isOp("(") {
		m.params, m.defaults = p.params()
	}
	c, ok := p.unary(false).(callExpr)
	if !ok {
		fail("line %d: {%% call %%} needs a call", line)
	}
	p.end()
	m.body = p.block()
	p.close("endcall", line)
	return callStmt{c, m}
}
