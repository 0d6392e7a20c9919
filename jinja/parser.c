/*
 * A recursive descent parser. Each function is a rule of Jinja's grammar and leaves the parser behind what it has read; after a
 * failure of the heap all return at once.
 * Source: Jinja 2, parser.py (the grammar and its precedences).
 */
#include <string.h>

#include "jinja/jinja.h"
#include "jinja/syntax.h"

typedef struct {
    pf_jinja_heap *heap;
    const pf_jinja_tokens *tokens;
    size_t at;
} parser;

static const pf_jinja_token *now(const parser *p)
{
    return &p->tokens->items[p->at];
}

static const pf_jinja_token *ahead(const parser *p)
{
    return p->at + 1 < p->tokens->n ? now(p) + 1 : now(p);
}

static void advance(parser *p)
{
    if (p->at + 1 < p->tokens->n) p->at++;
    p->heap->line = now(p)->line;
}

static bool is_operator(const pf_jinja_token *token, const char *op)
{
    return token->kind == PF_JINJA_TOKEN_OPERATOR && pf_jinja_text_is(token->text, op);
}

static bool is_name(const pf_jinja_token *token, const char *name)
{
    return token->kind == PF_JINJA_TOKEN_NAME && pf_jinja_text_is(token->text, name);
}

/* Reads the operator, or the word, if it stands here. */
static bool take_operator(parser *p, const char *op)
{
    if (!pf_jinja_is_well(p->heap) || !is_operator(now(p), op)) return false;
    advance(p);
    return true;
}
static bool take_name(parser *p, const char *name)
{
    if (!pf_jinja_is_well(p->heap) || !is_name(now(p), name)) return false;
    advance(p);
    return true;
}

static void fail_expected(parser *p, const char *expected)
{
    const pf_jinja_token *found = now(p);
    static const char *const kinds[] = { "text", "{%", "{{", "%}", "}}" };
    if (found->kind == PF_JINJA_TOKEN_END)
        pf_jinja_fail(p->heap, PF_FORMAT, "the template ends where %s is expected", expected);
    else if (found->kind <= PF_JINJA_TOKEN_END_EXPRESSION)
        pf_jinja_fail(p->heap, PF_FORMAT, "%s stands where %s is expected", kinds[found->kind], expected);
    else
        pf_jinja_fail(p->heap, PF_FORMAT, "\"%.*s\" stands where %s is expected",
                      (int)(found->text.n < 40 ? found->text.n : 40), found->text.n > 0 ? found->text.data : "",
                      expected);
}

static void expect_operator(parser *p, const char *op)
{
    if (!take_operator(p, op)) fail_expected(p, op);
}

static void expect_name(parser *p, const char *name)
{
    if (!take_name(p, name)) fail_expected(p, name);
}

static pf_jinja_node *new_node(parser *p, pf_jinja_node_kind kind)
{
    pf_jinja_node *node = pf_jinja_take(p->heap, 1, sizeof *node);
    if (node != NULL) *node = (pf_jinja_node){ .kind = kind, .line = now(p)->line };
    return node;
}

/* Enters a nested rule; false: too deep, or the heap has failed. */
static bool enter(parser *p)
{
    p->heap->depth++;
    if (p->heap->depth > PF_JINJA_MAX_DEPTH)
        pf_jinja_fail(p->heap, PF_LIMIT, "the template is nested more than %d deep", PF_JINJA_MAX_DEPTH);
    return pf_jinja_is_well(p->heap);
}
static void leave(parser *p)
{
    p->heap->depth--;
}

/* A list that nodes are added to. */
typedef struct {
    pf_jinja_node *first, **end;
} node_list;

static void add(node_list *list, pf_jinja_node *node)
{
    if (node == NULL) return;
    if (list->end == NULL) list->end = &list->first;
    *list->end = node;
    list->end = &node->next;
}

static pf_jinja_node *parse_expression(parser *p);
static pf_jinja_node *parse_or(parser *p);
static pf_jinja_node *parse_unary(parser *p, bool with_filters);
static pf_jinja_node *parse_tuple(parser *p, bool with_conditions);

/* ---- constants and names ------------------------------------------------------------------------------------------- */

static pf_jinja_text take_word(parser *p, const char *expected)
{
    const pf_jinja_token *token = now(p);
    if (token->kind != PF_JINJA_TOKEN_NAME) {
        fail_expected(p, expected);
        return PF_JINJA_TEXT("");
    }
    advance(p);
    return token->text;
}

static pf_jinja_node *constant(parser *p, pf_jinja_value value)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_CONSTANT);
    if (node != NULL) node->value = value;
    return node;
}

/* Texts that follow each other are one. */
static pf_jinja_node *parse_strings(parser *p)
{
    pf_jinja_builder b = { .n = 0 };
    for (; now(p)->kind == PF_JINJA_TOKEN_STRING && pf_jinja_is_well(p->heap); advance(p))
        pf_jinja_add(p->heap, &b, now(p)->text.data, now(p)->text.n);
    return constant(p, pf_jinja_string((pf_jinja_text){ b.data, b.n }));
}

static pf_jinja_node *parse_name(parser *p)
{
    static const struct {
        const char *word;
        int value; /* -1: None */
    } words[] = { { "true", 1 }, { "True", 1 }, { "false", 0 }, { "False", 0 }, { "none", -1 }, { "None", -1 } };
    const pf_jinja_text text = now(p)->text;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!take_name(p, words[i].word)) continue;
        return constant(p, words[i].value < 0 ? pf_jinja_none() : pf_jinja_bool(words[i].value));
    }
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_NAME);
    if (node != NULL) node->text = text;
    advance(p);
    return node;
}

static pf_jinja_node *parse_list(parser *p)
{
    node_list items = { NULL, NULL };
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_LIST);
    expect_operator(p, "[");
    while (pf_jinja_is_well(p->heap) && !is_operator(now(p), "]")) {
        add(&items, parse_expression(p));
        if (!take_operator(p, ",")) break;
    }
    expect_operator(p, "]");
    if (node != NULL) node->items = items.first;
    return node;
}

static pf_jinja_node *parse_dict(parser *p)
{
    node_list items = { NULL, NULL };
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_DICT);
    expect_operator(p, "{");
    while (pf_jinja_is_well(p->heap) && !is_operator(now(p), "}")) {
        add(&items, parse_expression(p));
        expect_operator(p, ":");
        add(&items, parse_expression(p));
        if (!take_operator(p, ",")) break;
    }
    expect_operator(p, "}");
    if (node != NULL) node->items = items.first;
    return node;
}

static pf_jinja_node *parse_parentheses(parser *p)
{
    expect_operator(p, "(");
    pf_jinja_node *node = NULL;
    if (is_operator(now(p), ")"))
        node = new_node(p, PF_JINJA_NODE_TUPLE);
    else
        node = parse_tuple(p, true);
    expect_operator(p, ")");
    return node;
}

static pf_jinja_node *parse_primary(parser *p)
{
    const pf_jinja_token *token = now(p);
    pf_jinja_node *node = NULL;
    if (!enter(p)) {
        leave(p);
        return NULL;
    }
    if (token->kind == PF_JINJA_TOKEN_NAME) {
        node = parse_name(p);
    } else if (token->kind == PF_JINJA_TOKEN_STRING) {
        node = parse_strings(p);
    } else if (token->kind == PF_JINJA_TOKEN_INT || token->kind == PF_JINJA_TOKEN_FLOAT) {
        node =
            constant(p, token->kind == PF_JINJA_TOKEN_INT ? pf_jinja_int(token->integer) : pf_jinja_real(token->real));
        advance(p);
    } else if (is_operator(token, "(")) {
        node = parse_parentheses(p);
    } else if (is_operator(token, "[")) {
        node = parse_list(p);
    } else if (is_operator(token, "{")) {
        node = parse_dict(p);
    } else {
        fail_expected(p, "an expression");
    }
    leave(p);
    return node;
}

/* ---- what stands behind an expression ------------------------------------------------------------------------------ */

/* "(a, b, key=c)" into items and keywords of the node. */
static void parse_arguments(parser *p, pf_jinja_node *node)
{
    node_list items = { NULL, NULL }, keywords = { NULL, NULL };
    expect_operator(p, "(");
    while (pf_jinja_is_well(p->heap) && !is_operator(now(p), ")")) {
        if (now(p)->kind == PF_JINJA_TOKEN_NAME && is_operator(ahead(p), "=")) {
            pf_jinja_node *keyword = new_node(p, PF_JINJA_NODE_NAME);
            const pf_jinja_text name = take_word(p, "a name");
            expect_operator(p, "=");
            pf_jinja_node *value = parse_expression(p);
            if (keyword == NULL) break;
            keyword->text = name;
            keyword->a = value;
            add(&keywords, keyword);
        } else if (keywords.first != NULL) {
            fail_expected(p, "a keyword argument");
        } else {
            add(&items, parse_expression(p));
        }
        if (!take_operator(p, ",")) break;
    }
    expect_operator(p, ")");
    if (node == NULL) return;
    node->items = items.first;
    node->keywords = keywords.first;
}

/* "a.name", "a.0" */
static pf_jinja_node *parse_field(parser *p, pf_jinja_node *of)
{
    advance(p);
    if (now(p)->kind == PF_JINJA_TOKEN_INT) {
        pf_jinja_node *node = new_node(p, PF_JINJA_NODE_ITEM);
        pf_jinja_node *index = constant(p, pf_jinja_int(now(p)->integer));
        advance(p);
        if (node == NULL) return NULL;
        node->a = of;
        node->b = index;
        return node;
    }
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_FIELD);
    const pf_jinja_text name = take_word(p, "the name of a field");
    if (node == NULL) return NULL;
    node->a = of;
    node->text = name;
    return node;
}

static pf_jinja_node *slice_end(parser *p)
{
    return is_operator(now(p), ":") || is_operator(now(p), "]") ? NULL : parse_expression(p);
}

/* "a[b]", "a[b:c:d]" */
static pf_jinja_node *parse_item(parser *p, pf_jinja_node *of)
{
    advance(p);
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_ITEM);
    pf_jinja_node *b = is_operator(now(p), ":") ? NULL : parse_tuple(p, true), *c = NULL, *d = NULL;
    const bool is_slice = take_operator(p, ":");
    if (is_slice) c = slice_end(p);
    if (is_slice && take_operator(p, ":")) d = slice_end(p);
    expect_operator(p, "]");
    if (node == NULL) return NULL;
    if (is_slice) node->kind = PF_JINJA_NODE_SLICE;
    node->a = of;
    node->b = b;
    node->c = c;
    node->d = d;
    return node;
}

static pf_jinja_node *parse_call(parser *p, pf_jinja_node *of)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_CALL);
    if (node != NULL) node->a = of;
    parse_arguments(p, node);
    return node;
}

static pf_jinja_node *parse_postfix(parser *p, pf_jinja_node *node)
{
    while (pf_jinja_step(p->heap, 1)) {
        if (is_operator(now(p), "."))
            node = parse_field(p, node);
        else if (is_operator(now(p), "["))
            node = parse_item(p, node);
        else if (is_operator(now(p), "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* "| name(arguments)", with the bar already read. */
static pf_jinja_node *parse_filter(parser *p, pf_jinja_node *of)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_FILTER);
    const pf_jinja_text name = take_word(p, "the name of a filter");
    if (node == NULL) return NULL;
    node->a = of;
    node->text = name;
    if (is_operator(now(p), "(")) parse_arguments(p, node);
    return node;
}

/* Whether a test's argument without parentheses begins here: "x is divisibleby 3". */
static bool begins_argument(const parser *p)
{
    static const char *const words[] = { "else", "or", "and", "is", "if", "in", "not", "recursive" };
    const pf_jinja_token *token = now(p);
    if (token->kind == PF_JINJA_TOKEN_STRING || token->kind == PF_JINJA_TOKEN_INT ||
        token->kind == PF_JINJA_TOKEN_FLOAT)
        return true;
    if (is_operator(token, "[") || is_operator(token, "{")) return true;
    if (token->kind != PF_JINJA_TOKEN_NAME) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (pf_jinja_text_is(token->text, words[i])) return false;
    return true;
}

/* "is [not] name [argument]", with "is" already read. */
static pf_jinja_node *parse_test(parser *p, pf_jinja_node *of)
{
    const bool is_not = take_name(p, "not");
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_TEST);
    const bool is_in = take_name(p, "in");
    const pf_jinja_text name = is_in ? PF_JINJA_TEXT("in") : take_word(p, "the name of a test");
    if (node == NULL) return NULL;
    node->a = of;
    node->text = name;
    if (is_operator(now(p), "("))
        parse_arguments(p, node);
    else if (begins_argument(p))
        node->items = parse_postfix(p, parse_primary(p));
    if (!is_not) return node;
    pf_jinja_node *not_node = new_node(p, PF_JINJA_NODE_NOT);
    if (not_node != NULL) not_node->a = node;
    return not_node;
}

static pf_jinja_node *parse_filters(parser *p, pf_jinja_node *node)
{
    while (pf_jinja_step(p->heap, 1)) {
        if (take_operator(p, "|"))
            node = parse_filter(p, node);
        else if (take_name(p, "is"))
            node = parse_test(p, node);
        else if (is_operator(now(p), "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* ---- operators ------------------------------------------------------------------------------------------------------ */

static pf_jinja_node *join(parser *p, pf_jinja_node_kind kind, pf_jinja_text op, pf_jinja_node *a, pf_jinja_node *b)
{
    pf_jinja_node *node = new_node(p, kind);
    if (node == NULL) return NULL;
    node->text = op;
    node->a = a;
    node->b = b;
    return node;
}

static pf_jinja_node *parse_unary(parser *p, bool with_filters)
{
    pf_jinja_node *node = NULL;
    if (!enter(p)) {
        leave(p);
        return NULL;
    }
    if (take_operator(p, "-"))
        node = join(p, PF_JINJA_NODE_NEGATIVE, PF_JINJA_TEXT("-"), parse_unary(p, false), NULL);
    else if (take_operator(p, "+"))
        node = join(p, PF_JINJA_NODE_POSITIVE, PF_JINJA_TEXT("+"), parse_unary(p, false), NULL);
    else
        node = parse_primary(p);
    node = parse_postfix(p, node);
    leave(p);
    return with_filters ? parse_filters(p, node) : node;
}

typedef pf_jinja_node *rule(parser *p);

/* Operands of `below`, joined from the left by any of the operators. */
static pf_jinja_node *parse_binary(parser *p, const char *const *operators, rule *below)
{
    pf_jinja_node *node = below(p);
    while (pf_jinja_step(p->heap, 1)) {
        size_t i = 0;
        while (operators[i] != NULL && !is_operator(now(p), operators[i])) i++;
        if (operators[i] == NULL) break;
        const pf_jinja_text op = now(p)->text;
        advance(p);
        node = join(p, PF_JINJA_NODE_BINARY, op, node, below(p));
    }
    return node;
}

static pf_jinja_node *parse_operand(parser *p)
{
    return parse_unary(p, true);
}
static pf_jinja_node *parse_power(parser *p)
{
    return parse_binary(p, (const char *const[]){ "**", NULL }, parse_operand);
}
static pf_jinja_node *parse_product(parser *p)
{
    return parse_binary(p, (const char *const[]){ "*", "/", "//", "%", NULL }, parse_power);
}
static pf_jinja_node *parse_concatenation(parser *p)
{
    return parse_binary(p, (const char *const[]){ "~", NULL }, parse_product);
}
static pf_jinja_node *parse_sum(parser *p)
{
    return parse_binary(p, (const char *const[]){ "+", "-", NULL }, parse_concatenation);
}

/* The operator of a comparison here, read; an empty text: none. */
static pf_jinja_text take_comparison(parser *p)
{
    static const char *const operators[] = { "==", "!=", "<=", ">=", "<", ">" };
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (take_operator(p, operators[i])) return (pf_jinja_text){ operators[i], strlen(operators[i]) };
    if (take_name(p, "in")) return PF_JINJA_TEXT("in");
    if (is_name(now(p), "not") && is_name(ahead(p), "in")) {
        advance(p);
        advance(p);
        return PF_JINJA_TEXT("not in");
    }
    return PF_JINJA_TEXT("");
}

static pf_jinja_node *parse_comparison(parser *p)
{
    node_list others = { NULL, NULL };
    pf_jinja_node *first = parse_sum(p);
    for (pf_jinja_text op = take_comparison(p); op.n > 0 && pf_jinja_step(p->heap, 1); op = take_comparison(p))
        add(&others, join(p, PF_JINJA_NODE_COMPARE, op, NULL, parse_sum(p)));
    if (others.first == NULL) return first;
    pf_jinja_node *node = join(p, PF_JINJA_NODE_COMPARE, PF_JINJA_TEXT(""), first, NULL);
    if (node != NULL) node->items = others.first;
    return node;
}

static pf_jinja_node *parse_not(parser *p)
{
    pf_jinja_node *node = NULL;
    if (enter(p)) {
        if (is_name(now(p), "not") && !is_name(ahead(p), "in")) {
            advance(p);
            node = join(p, PF_JINJA_NODE_NOT, PF_JINJA_TEXT("not"), parse_not(p), NULL);
        } else {
            node = parse_comparison(p);
        }
    }
    leave(p);
    return node;
}

static pf_jinja_node *parse_and(parser *p)
{
    pf_jinja_node *node = parse_not(p);
    while (take_name(p, "and")) node = join(p, PF_JINJA_NODE_AND, PF_JINJA_TEXT("and"), node, parse_not(p));
    return node;
}

static pf_jinja_node *parse_or(parser *p)
{
    pf_jinja_node *node = parse_and(p);
    while (take_name(p, "or")) node = join(p, PF_JINJA_NODE_OR, PF_JINJA_TEXT("or"), node, parse_and(p));
    return node;
}

/* "a if b else c" */
static pf_jinja_node *parse_expression(parser *p)
{
    if (!enter(p)) {
        leave(p);
        return NULL;
    }
    pf_jinja_node *node = parse_or(p);
    while (take_name(p, "if")) {
        pf_jinja_node *condition = parse_or(p);
        pf_jinja_node *other = take_name(p, "else") ? parse_expression(p) : NULL;
        node = join(p, PF_JINJA_NODE_CONDITION, PF_JINJA_TEXT("if"), node, condition);
        if (node != NULL) node->c = other;
    }
    leave(p);
    return node;
}

/* "a" alone, or "a, b" as a tuple. */
static pf_jinja_node *parse_tuple(parser *p, bool with_conditions)
{
    rule *const one = with_conditions ? parse_expression : parse_or;
    node_list items = { NULL, NULL };
    pf_jinja_node *first = one(p);
    if (!is_operator(now(p), ",")) return first;
    add(&items, first);
    while (take_operator(p, ",")) {
        const pf_jinja_token *token = now(p);
        if (token->kind == PF_JINJA_TOKEN_END_EXPRESSION || token->kind == PF_JINJA_TOKEN_END_STATEMENT) break;
        if (is_operator(token, ")") || is_operator(token, "]") || is_operator(token, "=")) break;
        add(&items, one(p));
    }
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_TUPLE);
    if (node != NULL) node->items = items.first;
    return node;
}

/* ---- statements ----------------------------------------------------------------------------------------------------- */

static pf_jinja_node *parse_until(parser *p, const char *const *words);

/* The end of the tag that opened a statement. */
static void end_tag(parser *p)
{
    if (now(p)->kind != PF_JINJA_TOKEN_END_STATEMENT) {
        fail_expected(p, "%}");
        return;
    }
    advance(p);
}

/* What stands up to "{% word %}", with that tag read. */
static pf_jinja_node *parse_body(parser *p, const char *word)
{
    end_tag(p);
    pf_jinja_node *items = parse_until(p, (const char *const[]){ word, NULL });
    expect_name(p, word);
    end_tag(p);
    return items;
}

/* "a", "a, b", "(a, b)", or "a.field" */
static pf_jinja_node *parse_target(parser *p)
{
    pf_jinja_node *target = parse_tuple(p, false);
    if (target == NULL) return NULL;
    const bool is_field =
        target->kind == PF_JINJA_NODE_FIELD && target->a != NULL && target->a->kind == PF_JINJA_NODE_NAME;
    bool is_good = target->kind == PF_JINJA_NODE_NAME || is_field || target->kind == PF_JINJA_NODE_TUPLE;
    for (const pf_jinja_node *item = target->items; target->kind == PF_JINJA_NODE_TUPLE && item != NULL;
         item = item->next)
        is_good &= item->kind == PF_JINJA_NODE_NAME;
    if (!is_good) fail_expected(p, "a name to assign to");
    return target;
}

/* The loop's names; "in" is no operator here. */
static pf_jinja_node *parse_loop_target(parser *p)
{
    node_list items = { NULL, NULL };
    const bool in_parentheses = take_operator(p, "(");
    do {
        pf_jinja_node *name = new_node(p, PF_JINJA_NODE_NAME);
        const pf_jinja_text text = take_word(p, "the name of a loop's variable");
        if (name == NULL) return NULL;
        name->text = text;
        add(&items, name);
    } while (take_operator(p, ",") && now(p)->kind == PF_JINJA_TOKEN_NAME && !is_name(now(p), "in"));
    if (in_parentheses) expect_operator(p, ")");
    if (items.first == NULL || items.first->next == NULL) return items.first;
    pf_jinja_node *tuple = new_node(p, PF_JINJA_NODE_TUPLE);
    if (tuple != NULL) tuple->items = items.first;
    return tuple;
}

static pf_jinja_node *parse_for(parser *p)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_FOR);
    pf_jinja_node *target = parse_loop_target(p);
    expect_name(p, "in");
    pf_jinja_node *sequence = parse_tuple(p, false);
    pf_jinja_node *condition = take_name(p, "if") ? parse_expression(p) : NULL;
    const bool is_recursive = take_name(p, "recursive");
    end_tag(p);
    if (node == NULL) return NULL;
    node->value = pf_jinja_bool(is_recursive);
    node->a = target;
    node->b = sequence;
    node->c = condition;
    node->items = parse_until(p, (const char *const[]){ "else", "endfor", NULL });
    if (take_name(p, "else")) {
        end_tag(p);
        node->other = parse_until(p, (const char *const[]){ "endfor", NULL });
    }
    expect_name(p, "endfor");
    end_tag(p);
    return node;
}

static pf_jinja_node *parse_if(parser *p)
{
    pf_jinja_node *first = new_node(p, PF_JINJA_NODE_IF), *node = first;
    while (node != NULL) {
        node->a = parse_tuple(p, true);
        end_tag(p);
        node->items = parse_until(p, (const char *const[]){ "elif", "else", "endif", NULL });
        if (!take_name(p, "elif")) break;
        node->other = new_node(p, PF_JINJA_NODE_IF);
        node = node->other;
    }
    if (take_name(p, "else")) {
        end_tag(p);
        pf_jinja_node *other = parse_until(p, (const char *const[]){ "endif", NULL });
        if (node != NULL) node->other = other;
    }
    expect_name(p, "endif");
    end_tag(p);
    return first;
}

/* "| filter | filter" of a block: from the inside out. */
static pf_jinja_node *parse_block_filters(parser *p)
{
    pf_jinja_node *node = NULL;
    while (take_operator(p, "|")) node = parse_filter(p, node);
    return node;
}

static pf_jinja_node *parse_set(parser *p)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_SET);
    if (node == NULL) return NULL;
    const bool is_block = ahead(p)->kind == PF_JINJA_TOKEN_END_STATEMENT || is_operator(ahead(p), "|");
    if (is_block && now(p)->kind == PF_JINJA_TOKEN_NAME) {
        node->kind = PF_JINJA_NODE_SET_BLOCK;
        node->a = parse_name(p);
        node->b = parse_block_filters(p);
        node->items = parse_body(p, "endset");
        return node;
    }
    node->a = parse_target(p);
    expect_operator(p, "=");
    node->b = parse_tuple(p, true);
    end_tag(p);
    return node;
}

/* "(a, b=1)" */
static pf_jinja_node *parse_parameters(parser *p)
{
    node_list parameters = { NULL, NULL };
    expect_operator(p, "(");
    while (pf_jinja_is_well(p->heap) && !is_operator(now(p), ")")) {
        pf_jinja_node *parameter = new_node(p, PF_JINJA_NODE_NAME);
        const pf_jinja_text name = take_word(p, "the name of a parameter");
        if (parameter == NULL) break;
        parameter->text = name;
        if (take_operator(p, "=")) parameter->a = parse_expression(p);
        add(&parameters, parameter);
        if (!take_operator(p, ",")) break;
    }
    expect_operator(p, ")");
    return parameters.first;
}

static pf_jinja_node *parse_macro(parser *p)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_MACRO);
    const pf_jinja_text name = take_word(p, "the name of a macro");
    if (node == NULL) return NULL;
    node->text = name;
    node->keywords = parse_parameters(p);
    node->items = parse_body(p, "endmacro");
    return node;
}

static pf_jinja_node *parse_call_block(parser *p)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_CALL_BLOCK);
    if (node == NULL) return NULL;
    if (is_operator(now(p), "(")) node->keywords = parse_parameters(p);
    node->a = parse_expression(p);
    if (node->a != NULL && node->a->kind != PF_JINJA_NODE_CALL) fail_expected(p, "a call of a macro");
    node->items = parse_body(p, "endcall");
    return node;
}

static pf_jinja_node *parse_filter_block(parser *p)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_FILTER_BLOCK);
    if (node == NULL) return NULL;
    node->b = parse_filter(p, NULL);
    while (take_operator(p, "|")) node->b = parse_filter(p, node->b);
    node->items = parse_body(p, "endfilter");
    return node;
}

static pf_jinja_node *parse_with(parser *p)
{
    node_list names = { NULL, NULL };
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_WITH);
    while (pf_jinja_is_well(p->heap) && now(p)->kind == PF_JINJA_TOKEN_NAME) {
        pf_jinja_node *name = parse_name(p);
        expect_operator(p, "=");
        pf_jinja_node *value = parse_expression(p);
        if (name == NULL) break;
        name->a = value;
        add(&names, name);
        if (!take_operator(p, ",")) break;
    }
    if (node == NULL) return NULL;
    node->keywords = names.first;
    node->items = parse_body(p, "endwith");
    return node;
}

static pf_jinja_node *parse_generation(parser *p)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_BLOCK);
    if (node != NULL) node->items = parse_body(p, "endgeneration");
    return node;
}

static pf_jinja_node *parse_jump(parser *p, pf_jinja_node_kind kind)
{
    pf_jinja_node *node = new_node(p, kind);
    end_tag(p);
    return node;
}

static pf_jinja_node *parse_statement(parser *p)
{
    const pf_jinja_text word = take_word(p, "a statement");
    if (!pf_jinja_is_well(p->heap)) return NULL;
    if (pf_jinja_text_is(word, "if")) return parse_if(p);
    if (pf_jinja_text_is(word, "for")) return parse_for(p);
    if (pf_jinja_text_is(word, "set")) return parse_set(p);
    if (pf_jinja_text_is(word, "macro")) return parse_macro(p);
    if (pf_jinja_text_is(word, "call")) return parse_call_block(p);
    if (pf_jinja_text_is(word, "filter")) return parse_filter_block(p);
    if (pf_jinja_text_is(word, "with")) return parse_with(p);
    if (pf_jinja_text_is(word, "generation")) return parse_generation(p);
    if (pf_jinja_text_is(word, "break")) return parse_jump(p, PF_JINJA_NODE_BREAK);
    if (pf_jinja_text_is(word, "continue")) return parse_jump(p, PF_JINJA_NODE_CONTINUE);
    const bool is_end = word.n > 3 && memcmp(word.data, "end", 3) == 0;
    pf_jinja_fail(p->heap, is_end ? PF_FORMAT : PF_UNSUPPORTED,
                  is_end ? "{%% %.*s %%} ends nothing that is open" : "the statement \"%.*s\" is not known",
                  (int)(word.n < 40 ? word.n : 40), word.data);
    return NULL;
}

static pf_jinja_node *parse_print(parser *p)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_PRINT);
    advance(p);
    pf_jinja_node *printed = parse_tuple(p, true);
    if (now(p)->kind != PF_JINJA_TOKEN_END_EXPRESSION) fail_expected(p, "}}");
    advance(p);
    if (node != NULL) node->a = printed;
    return node;
}

static pf_jinja_node *parse_text(parser *p)
{
    pf_jinja_node *node = new_node(p, PF_JINJA_NODE_TEXT);
    if (node != NULL) node->text = now(p)->text;
    advance(p);
    return node;
}

/* Whether a statement tag with one of the words stands here. */
static bool stops_here(const parser *p, const char *const *words)
{
    if (now(p)->kind != PF_JINJA_TOKEN_STATEMENT) return false;
    for (; *words != NULL; words++)
        if (is_name(ahead(p), *words)) return true;
    return false;
}

/* Statements up to a tag with one of the words, of which "{%" is read; up to the end without words. */
static pf_jinja_node *parse_until(parser *p, const char *const *words)
{
    node_list statements = { NULL, NULL };
    if (!enter(p)) {
        leave(p);
        return NULL;
    }
    while (pf_jinja_step(p->heap, 1) && now(p)->kind != PF_JINJA_TOKEN_END && !stops_here(p, words)) {
        if (now(p)->kind == PF_JINJA_TOKEN_TEXT) {
            add(&statements, parse_text(p));
        } else if (now(p)->kind == PF_JINJA_TOKEN_EXPRESSION) {
            add(&statements, parse_print(p));
        } else if (now(p)->kind == PF_JINJA_TOKEN_STATEMENT) {
            advance(p);
            add(&statements, parse_statement(p));
        } else {
            fail_expected(p, "text or a tag");
        }
    }
    if (*words != NULL && now(p)->kind == PF_JINJA_TOKEN_STATEMENT) advance(p);
    leave(p);
    return statements.first;
}

pf_jinja_node *pf_jinja_parse_tokens(pf_jinja_heap *heap, const pf_jinja_tokens *tokens)
{
    parser p = { .heap = heap, .tokens = tokens };
    if (!pf_jinja_is_well(heap)) return NULL;
    return parse_until(&p, (const char *const[]){ NULL });
}
