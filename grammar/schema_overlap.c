#include "grammar/schema_overlap.h"

#include <stdint.h>
#include <string.h>

enum { MOST_DEPTH = 16, MOST_VALUES = 64, MOST_LOOKS = 4096 };
enum {
    IS_NULL = 1,
    IS_BOOLEAN = 2,
    IS_WHOLE = 4,
    IS_FRACTION = 8,
    IS_STRING = 16,
    IS_ARRAY = 32,
    IS_OBJECT = 64,
    IS_ANY = 127
};

const json_t *pf_schema_find(const json_t *root, const char *reference)
{
    if (reference[0] != '#' || (reference[1] != '\0' && reference[1] != '/')) return NULL;
    const json_t *at = root;
    for (const char *word = reference + 1; *word == '/' && at;) {
        char key[256];
        size_t n = 0;
        for (word++; *word && *word != '/' && n + 1 < sizeof key; word++) {
            const bool is_escape = *word == '~' && (word[1] == '0' || word[1] == '1');
            key[n++] = is_escape ? (word[1] == '0' ? '~' : '/') : *word;
            if (is_escape) word++;
        }
        key[n] = '\0';
        at = *word && *word != '/' ? NULL : json_object_get(at, key);
    }
    return at;
}

const char *pf_schema_implied_type(const json_t *schema)
{
    if (json_object_get(schema, "properties") || json_object_get(schema, "required") ||
        json_object_get(schema, "additionalProperties"))
        return "object";
    if (json_object_get(schema, "items") || json_object_get(schema, "minItems") || json_object_get(schema, "maxItems"))
        return "array";
    if (json_object_get(schema, "minimum") || json_object_get(schema, "maximum") ||
        json_object_get(schema, "exclusiveMinimum") || json_object_get(schema, "exclusiveMaximum") ||
        json_object_get(schema, "multipleOf"))
        return "number";
    return json_object_get(schema, "minLength") || json_object_get(schema, "maxLength") ||
                   json_object_get(schema, "pattern")
               ? "string"
               : NULL;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------------ */

static int32_t kind_of_word(const char *word)
{
    static const struct {
        const char *word;
        int32_t kinds;
    } all[] = { { "null", IS_NULL },
                { "boolean", IS_BOOLEAN },
                { "integer", IS_WHOLE },
                { "string", IS_STRING },
                { "array", IS_ARRAY },
                { "object", IS_OBJECT },
                { "number", IS_WHOLE | IS_FRACTION } };
    for (size_t i = 0; word && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].word, word) == 0) return all[i].kinds;
    return IS_ANY;
}

/* 5.0 is a whole number, too. */
static int32_t kind_of_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return IS_OBJECT;
    case JSON_ARRAY: return IS_ARRAY;
    case JSON_STRING: return IS_STRING;
    case JSON_INTEGER: return IS_WHOLE;
    case JSON_REAL: return IS_WHOLE | IS_FRACTION;
    case JSON_NULL: return IS_NULL;
    default: return IS_BOOLEAN;
    }
}

/* Behind its references. NULL: it cannot be followed. */
static const json_t *follow(const json_t *root, const json_t *schema)
{
    for (int32_t i = 0; i < MOST_DEPTH; i++) {
        const char *reference = json_string_value(json_object_get(schema, "$ref"));
        if (!reference) return schema;
        schema = pf_schema_find(root, reference);
    }
    return NULL;
}

/* budget: schemas that may still be looked at, as references make many of few. */
static int32_t find_kinds(const json_t *root, const json_t *given, int32_t depth, int32_t *budget)
{
    const json_t *schema = follow(root, given);
    const json_t *constant = json_object_get(schema, "const"), *values = json_object_get(schema, "enum");
    const json_t *list = json_object_get(schema, "anyOf"), *type = json_object_get(schema, "type");
    int32_t kinds = 0;
    if (!list) list = json_object_get(schema, "oneOf");
    if (depth == 0 || --*budget <= 0 || !json_is_object(schema)) return IS_ANY;
    if (constant) return kind_of_value(constant);
    for (size_t i = 0; i < json_array_size(values); i++) kinds |= kind_of_value(json_array_get(values, i));
    if (values) return kinds;
    for (size_t i = 0; i < json_array_size(list); i++)
        kinds |= find_kinds(root, json_array_get(list, i), depth - 1, budget);
    if (list) return kinds;
    for (size_t i = 0; i < json_array_size(type); i++)
        kinds |= kind_of_word(json_string_value(json_array_get(type, i)));
    if (json_is_array(type)) return kinds;
    return kind_of_word(type ? json_string_value(type) : pf_schema_implied_type(schema));
}

static int32_t kinds_of(const json_t *root, const json_t *schema)
{
    int32_t budget = MOST_LOOKS;
    return find_kinds(root, schema, MOST_DEPTH, &budget);
}

bool pf_schema_may_be_string(const json_t *root, const json_t *schema)
{
    return (kinds_of(root, schema) & IS_STRING) != 0;
}

/* ---- values ----------------------------------------------------------------------------------------------------------- */

/* The values that a schema names: of const, or of enum. The number of them; 0: others fit, too. */
static size_t values_of(const json_t *root, const json_t *given, const json_t *out[MOST_VALUES])
{
    const json_t *schema = follow(root, given), *constant = json_object_get(schema, "const");
    const json_t *values = json_object_get(schema, "enum");
    const size_t n = json_array_size(values);
    if (constant) out[0] = constant;
    if (constant) return 1;
    for (size_t i = 0; i < n && n <= MOST_VALUES; i++) out[i] = json_array_get(values, i);
    return n <= MOST_VALUES ? n : 0;
}

static bool are_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return !(json_number_value(a) < json_number_value(b)) && !(json_number_value(a) > json_number_value(b));
    return json_equal(a, b);
}

static bool have_other_values(const json_t *root, const json_t *a, const json_t *b)
{
    const json_t *of_a[MOST_VALUES], *of_b[MOST_VALUES];
    const size_t n = values_of(root, a, of_a), m = values_of(root, b, of_b);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++)
            if (are_equal(of_a[i], of_b[j])) return false;
    return n > 0 && m > 0;
}

bool pf_schema_requires(const json_t *schema, const char *key)
{
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *word = json_string_value(json_array_get(required, i));
        if (word && strcmp(word, key) == 0) return true;
    }
    return false;
}

/* Both are for objects alone, and have other values of a property that both require. */
static bool are_told_apart(const json_t *root, const json_t *given_a, const json_t *given_b)
{
    const json_t *a = follow(root, given_a), *b = follow(root, given_b);
    const char *key;
    json_t *value;
    if (kinds_of(root, a) != IS_OBJECT || kinds_of(root, b) != IS_OBJECT) return false;
    json_object_foreach(json_object_get(a, "properties"), key, value)
    {
        const json_t *other = json_object_get(json_object_get(b, "properties"), key);
        if (other && have_other_values(root, value, other) && pf_schema_requires(a, key) && pf_schema_requires(b, key))
            return true;
    }
    return false;
}

bool pf_schemas_are_disjoint(const json_t *root, const json_t *a, const json_t *b)
{
    return (kinds_of(root, a) & kinds_of(root, b)) == 0 || have_other_values(root, a, b) || are_told_apart(root, a, b);
}
