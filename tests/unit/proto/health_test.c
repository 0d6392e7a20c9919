/* The messages of grpc.health.v1 to bytes and back. */
#include "proto/health.h"
#include "tests/support/test.h"

static void health_messages_survive_a_round_trip(void **state)
{
    (void)state;
    size_t n = 0;
    uint8_t buffer[PF_MAX_HEALTH_BYTES];
    char service[PF_MAX_SERVICE_BYTES];
    pf_health health;
    assert_int_equal(pf_health_encode_request("pilotfish.v1.Drafter", buffer, PF_MAX_HEALTH_BYTES, &n), PF_OK);
    assert_int_equal(pf_health_decode_request(buffer, n, service), PF_OK);
    assert_string_equal(service, "pilotfish.v1.Drafter");
    assert_int_equal(pf_health_decode_request(NULL, 0, service), PF_OK);
    assert_string_equal(service, "");
    assert_int_equal(pf_health_decode_request((const uint8_t *)"\x0a\x00", 2, service), PF_OK);
    assert_string_equal(service, "");
    assert_int_equal(pf_health_decode_request((const uint8_t *)"\x0a\x03"
                                                               "a\0b",
                                              5, service),
                     PF_LIMIT);
    assert_int_equal(pf_health_decode_request((const uint8_t *)"\xff", 1, service), PF_FORMAT);
    assert_int_equal(pf_health_decode_request(buffer, PF_MAX_HEALTH_BYTES + 1, service), PF_LIMIT);
    assert_int_equal(pf_health_encode_response(PF_HEALTH_NOT_SERVING, buffer, PF_MAX_HEALTH_BYTES, &n), PF_OK);
    assert_int_equal(pf_health_decode_response(buffer, n, &health), PF_OK);
    assert_int_equal(health, PF_HEALTH_NOT_SERVING);
    assert_int_equal(pf_health_decode_response((const uint8_t *)"\x08\x09", 2, &health), PF_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_messages_survive_a_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
