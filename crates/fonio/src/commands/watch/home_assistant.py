# Asks a new Home Assistant: `token` makes the first user and prints an access token, `notifications TOKEN` prints the
# notifications as JSON.
import asyncio, json, sys, time
import aiohttp

address, what, token = sys.argv[1:4]


async def new_token(session):
    for _ in range(600):
        try:
            user = {"client_id": address + "/", "name": "t", "username": "t", "password": "t", "language": "en"}
            async with session.post(address + "/api/onboarding/users", json=user) as answer:
                if answer.status == 200:
                    code = (await answer.json())["auth_code"]
                    break
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.5)
    form = {"client_id": address + "/", "grant_type": "authorization_code", "code": code}
    async with session.post(address + "/auth/token", data=form) as answer:
        print((await answer.json())["access_token"])


async def notifications(session):
    async with session.ws_connect(address + "/api/websocket") as socket:
        await socket.receive_json()
        await socket.send_json({"type": "auth", "access_token": token})
        await socket.receive_json()
        await socket.send_json({"id": 1, "type": "persistent_notification/get"})
        print(json.dumps((await socket.receive_json())["result"]))


async def main():
    async with aiohttp.ClientSession() as session:
        await (new_token if what == "token" else notifications)(session)


asyncio.run(main())
