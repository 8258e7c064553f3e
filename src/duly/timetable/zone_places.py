"""Names that people type and the tz database does not know: more cities, states, spoken zone names.

The database has one city per zone and country; this hand-written list adds other big ones. A name
may stand in several lines, and a line whose zone a release lacks is passed over.
"""

from __future__ import annotations

PLACES = {
    "Africa/Abidjan": "Bouaké, Yamoussoukro",
    "Africa/Accra": "Kumasi",
    "Africa/Addis_Ababa": "Addis Abeba",
    "Africa/Algiers": "Oran, Constantine, Alger",
    "Africa/Cairo": "Alexandria, Giza, Luxor",
    "Africa/Casablanca": "Rabat, Marrakesh, Marrakech, Fez, Tangier, Agadir",
    "Africa/Dar_es_Salaam": "Dodoma, Arusha, Zanzibar",
    "Africa/Douala": "Yaoundé",
    "Africa/Harare": "Bulawayo",
    "Africa/Johannesburg": "Cape Town, Durban, Pretoria, Port Elizabeth, Gqeberha, Bloemfontein",
    "Africa/Khartoum": "Omdurman",
    "Africa/Kinshasa": "Matadi",
    "Africa/Lagos": "Abuja, Kano, Ibadan, Port Harcourt",
    "Africa/Lubumbashi": "Goma, Kisangani, Mbuji-Mayi",
    "Africa/Nairobi": "Mombasa, Kisumu",
    "America/Argentina/Buenos_Aires": "La Plata, Mar del Plata",
    "America/Argentina/Cordoba": "Rosario, Santa Fe",
    "America/Bogota": "Medellín, Cali, Barranquilla, Cartagena",
    "America/Caracas": "Maracaibo",
    "America/Chicago": (
        "Dallas, Houston, San Antonio, Austin, Fort Worth, Minneapolis, Saint Paul, St. "
        "Louis, Kansas City, Milwaukee, Madison, New Orleans, Nashville, Memphis, Oklahoma "
        "City, Tulsa, Omaha, Des Moines, Birmingham, Little Rock, Texas, Illinois, Minnesota, "
        "Wisconsin, Missouri, Iowa, Louisiana, Alabama, Mississippi, Arkansas, Oklahoma, "
        "Kansas, Nebraska, Tennessee, South Dakota, North Dakota"
    ),
    "America/Denver": (
        "Salt Lake City, Albuquerque, Colorado Springs, El Paso, Santa Fe, Colorado, Utah, "
        "New Mexico, Wyoming, Montana"
    ),
    "America/Boise": "Idaho",
    "America/Detroit": "Michigan, Grand Rapids, Ann Arbor",
    "America/Edmonton": "Calgary, Alberta, Banff",
    "America/Guatemala": "Guatemala City",
    "America/Guayaquil": "Quito, Cuenca",
    "America/Halifax": "Nova Scotia, New Brunswick, Prince Edward Island, Charlottetown",
    "America/Indiana/Indianapolis": "Indiana, Fort Wayne",
    "America/Kentucky/Louisville": "Kentucky",
    "America/La_Paz": "Santa Cruz de la Sierra, Cochabamba",
    "America/Lima": "Cusco, Arequipa",
    "America/Los_Angeles": (
        "San Francisco, San Diego, San Jose, Sacramento, Oakland, Fresno, Long Beach, Palo "
        "Alto, Silicon Valley, Seattle, Spokane, Portland, Las Vegas, Reno, California, "
        "Oregon, Nevada, Washington State, LA, SF"
    ),
    "America/Anchorage": "Alaska, Fairbanks",
    "America/Mexico_City": "CDMX, Ciudad de México, Guadalajara, Puebla, León, Querétaro",
    "America/Cancun": "Playa del Carmen, Quintana Roo",
    "America/Montevideo": "Punta del Este",
    "America/New_York": (
        "NYC, Boston, Philadelphia, Washington, Washington D.C., Baltimore, Atlanta, Miami, "
        "Orlando, Tampa, Jacksonville, Charlotte, Raleigh, Pittsburgh, Cleveland, Columbus, "
        "Cincinnati, Buffalo, Newark, Brooklyn, Manhattan, Richmond, Providence, Hartford, "
        "Portland, New York City, Massachusetts, Pennsylvania, Florida, Georgia, North "
        "Carolina, South Carolina, Virginia, West Virginia, Maryland, Delaware, New Jersey, "
        "Connecticut, Rhode Island, Vermont, New Hampshire, Maine, Ohio, District of Columbia"
    ),
    "America/Phoenix": "Arizona, Tucson, Scottsdale, Mesa",
    "America/Regina": "Saskatchewan, Saskatoon",
    "America/Santiago": "Valparaíso, Concepción",
    "America/Santo_Domingo": "Punta Cana",
    "America/Sao_Paulo": (
        "Rio, Rio de Janeiro, Brasília, Belo Horizonte, Curitiba, Porto Alegre, Campinas, "
        "Goiânia, Florianópolis"
    ),
    "America/Bahia": "Salvador",
    "America/Fortaleza": "Natal",
    "America/St_Johns": "Newfoundland, Labrador",
    "America/Toronto": "Ottawa, Montreal, Quebec, Ontario, Hamilton, Waterloo, Québec City",
    "America/Vancouver": "Victoria, British Columbia, Surrey, Whistler",
    "America/Winnipeg": "Manitoba",
    "America/Whitehorse": "Yukon",
    "America/Tegucigalpa": "San Pedro Sula",
    "Asia/Almaty": "Astana, Nur-Sultan",
    "Asia/Baghdad": "Basra, Mosul, Erbil",
    "Asia/Bangkok": "Chiang Mai, Phuket, Pattaya",
    "Asia/Colombo": "Kandy",
    "Asia/Damascus": "Aleppo",
    "Asia/Dhaka": "Chittagong, Chattogram",
    "Asia/Dubai": "Abu Dhabi, Sharjah",
    "Asia/Ho_Chi_Minh": "Hanoi, Hà Nội, Da Nang, Saigon, Haiphong",
    "Asia/Hong_Kong": "Kowloon, HK",
    "Asia/Jakarta": "Bandung, Surabaya, Medan, Yogyakarta, Semarang",
    "Asia/Jayapura": "Papua",
    "Asia/Makassar": "Bali, Denpasar",
    "Asia/Jerusalem": "Tel Aviv, Haifa, Beersheba",
    "Asia/Kabul": "Kandahar",
    "Asia/Karachi": "Lahore, Islamabad, Rawalpindi, Faisalabad, Peshawar",
    "Asia/Kathmandu": "Pokhara",
    "Asia/Kolkata": (
        "Mumbai, Bombay, Delhi, New Delhi, Bangalore, Bengaluru, Chennai, Madras, Hyderabad, "
        "Ahmedabad, Pune, Jaipur, Surat, Lucknow, Kanpur, Nagpur, Kochi, Goa, Gurgaon, Noida"
    ),
    "Asia/Kuala_Lumpur": "Penang, Johor Bahru, KL",
    "Asia/Manila": "Quezon City, Cebu, Davao",
    "Asia/Riyadh": "Jeddah, Mecca, Medina, Dammam",
    "Asia/Seoul": "Busan, Incheon, Daegu",
    "Asia/Shanghai": (
        "Beijing, Peking, Shenzhen, Guangzhou, Canton, Chongqing, Chengdu, Tianjin, Wuhan, "
        "Nanjing, Xi'an, Hangzhou, Suzhou, Shenyang, Harbin, Qingdao, Dalian, Xiamen, "
        "Dongguan, Kunming"
    ),
    "Asia/Taipei": "Kaohsiung, Taichung",
    "Asia/Tashkent": "Samarkand",
    "Asia/Tehran": "Mashhad, Isfahan, Shiraz, Tabriz",
    "Asia/Tokyo": (
        "Osaka, Kyoto, Yokohama, Nagoya, Sapporo, Kobe, Fukuoka, Hiroshima, Sendai, Okinawa"
    ),
    "Asia/Ulaanbaatar": "Ulan Bator",
    "Asia/Yangon": "Mandalay, Naypyidaw",
    "Asia/Yekaterinburg": "Chelyabinsk, Perm, Ufa",
    "Asia/Vladivostok": "Khabarovsk",
    "Atlantic/Azores": "Ponta Delgada",
    "Atlantic/Canary": "Tenerife, Las Palmas, Gran Canaria, Lanzarote",
    "Australia/Adelaide": "South Australia",
    "Australia/Brisbane": "Gold Coast, Cairns, Queensland, Townsville",
    "Australia/Darwin": "Northern Territory, Alice Springs",
    "Australia/Hobart": "Tasmania",
    "Australia/Melbourne": "Victoria, Geelong",
    "Australia/Perth": "Western Australia",
    "Australia/Sydney": "Canberra, Newcastle, Wollongong, New South Wales, NSW",
    "Europe/Amsterdam": "Rotterdam, The Hague, Den Haag, Utrecht, Eindhoven",
    "Europe/Athens": "Thessaloniki, Crete",
    "Europe/Belgrade": "Novi Sad",
    "Europe/Berlin": (
        "Munich, München, Hamburg, Frankfurt, Cologne, Köln, Stuttgart, Düsseldorf, Leipzig, "
        "Dresden, Hannover, Nuremberg, Nürnberg, Bremen, Dortmund, Essen, Bonn, Karlsruhe"
    ),
    "Europe/Brussels": "Antwerp, Ghent, Bruges, Liège",
    "Europe/Bucharest": "Cluj-Napoca, Timișoara",
    "Europe/Copenhagen": "Aarhus, Odense, København",
    "Europe/Dublin": "Cork, Galway, Limerick",
    "Europe/Helsinki": "Espoo, Tampere, Turku",
    "Europe/Istanbul": "Ankara, Izmir, Antalya, Bursa",
    "Europe/Kyiv": "Kharkiv, Odesa, Odessa, Lviv, Dnipro",
    "Europe/Lisbon": "Porto, Braga, Faro, Lisboa",
    "Europe/London": (
        "Manchester, Birmingham, Edinburgh, Glasgow, Liverpool, Leeds, Bristol, Cardiff, "
        "Belfast, Cambridge, Oxford, Sheffield, Newcastle"
    ),
    "Europe/Madrid": "Barcelona, Valencia, Seville, Sevilla, Málaga, Bilbao, Zaragoza, Mallorca",
    "Europe/Moscow": "Saint Petersburg, St. Petersburg, Kazan, Nizhny Novgorod, Sochi, Moskva",
    "Europe/Oslo": "Bergen, Trondheim, Stavanger",
    "Europe/Paris": "Lyon, Marseille, Toulouse, Nice, Bordeaux, Lille, Nantes, Strasbourg, Rennes",
    "Europe/Prague": "Brno, Ostrava, Praha",
    "Europe/Riga": "Jūrmala",
    "Europe/Rome": "Milan, Milano, Naples, Napoli, Turin, Torino, Florence, Venice, Bologna, Roma",
    "Europe/Sofia": "Plovdiv, Varna",
    "Europe/Stockholm": "Gothenburg, Göteborg, Malmö, Uppsala",
    "Europe/Vienna": "Graz, Linz, Salzburg, Innsbruck, Wien",
    "Europe/Warsaw": "Kraków, Wrocław, Gdańsk, Poznań, Łódź, Katowice, Warszawa",
    "Europe/Zagreb": "Split, Dubrovnik",
    "Europe/Zurich": "Geneva, Genève, Basel, Bern, Lausanne, Lucerne",
    "Pacific/Auckland": "Wellington, Christchurch, Hamilton, Queenstown, Dunedin",
    "Pacific/Honolulu": "Hawaii, Maui",
    "Pacific/Tahiti": "Papeete, Bora Bora",
}
"""A zone, and the names of other places in it."""

COUNTRY_NAMES = {
    "AE": "UAE, Emirates",
    "BA": "Bosnia",
    "CD": "DR Congo",
    "CI": "Ivory Coast",
    "CZ": "Czechia",
    "GB": "UK, United Kingdom, Great Britain, England, Scotland, Wales, Northern Ireland",
    "KR": "South Korea, Republic of Korea",
    "KP": "North Korea",
    "MK": "Macedonia",
    "NL": "Holland",
    "SZ": "Swaziland",
    "TR": "Türkiye",
    "US": "US, USA, United States of America",
}
"""A country's code, and what else people call it than the tz database does."""

SPOKEN = {
    "ET, EST, EDT, Eastern, Eastern Time": "America/New_York, America/Toronto",
    "CT, CDT, Central Time": "America/Chicago, America/Winnipeg",
    "CST": "America/Chicago, Asia/Shanghai, America/Havana",
    "MT, MST, MDT, Mountain, Mountain Time": "America/Denver, America/Edmonton, America/Phoenix",
    "PT, PST, PDT, Pacific Time": "America/Los_Angeles, America/Vancouver",
    "AKT, AKST, AKDT, Alaska Time": "America/Anchorage",
    "HT, HST, Hawaii Time": "Pacific/Honolulu",
    "AT, AST, ADT, Atlantic Time": "America/Halifax",
    "NT, NST, NDT, Newfoundland Time": "America/St_Johns",
    "BRT, Brasilia Time": "America/Sao_Paulo",
    "ART": "America/Argentina/Buenos_Aires",
    "COT": "America/Bogota",
    "CLT, CLST": "America/Santiago",
    "PET": "America/Lima",
    "GMT": "Europe/London, Africa/Abidjan, Africa/Accra",
    "UK time": "Europe/London",
    "BST": "Europe/London, Asia/Dhaka",
    "IST": "Asia/Kolkata, Europe/Dublin, Asia/Jerusalem",
    "WET, WEST": "Europe/Lisbon",
    "CET, CEST, MEZ, MESZ, Central European Time": "Europe/Berlin, Europe/Paris",
    "EET, EEST": "Europe/Athens, Europe/Helsinki, Europe/Kyiv",
    "MSK, Moscow Time": "Europe/Moscow",
    "TRT": "Europe/Istanbul",
    "GST, Gulf Time": "Asia/Dubai",
    "IRST": "Asia/Tehran",
    "PKT": "Asia/Karachi",
    "NPT": "Asia/Kathmandu",
    "BDT": "Asia/Dhaka",
    "ICT": "Asia/Bangkok, Asia/Ho_Chi_Minh",
    "SGT": "Asia/Singapore",
    "MYT": "Asia/Kuala_Lumpur",
    "PHT": "Asia/Manila",
    "HKT": "Asia/Hong_Kong",
    "KST": "Asia/Seoul",
    "JST": "Asia/Tokyo",
    "AWST": "Australia/Perth",
    "ACT, ACST, ACDT": "Australia/Adelaide",
    "AET, AEST, AEDT": "Australia/Sydney, Australia/Melbourne",
    "NZT, NZST, NZDT": "Pacific/Auckland",
    "Z, Zulu": "UTC",
    "SAST": "Africa/Johannesburg",
    "EAT": "Africa/Nairobi",
    "WAT": "Africa/Lagos",
    "CAT": "Africa/Harare",
}
"""What people call a zone when they speak, and who they mean, the likeliest first."""

RENAMED = {
    "Africa/Asmera": "Africa/Asmara",
    "Africa/Timbuktu": "Africa/Bamako",
    "America/Coral_Harbour": "America/Atikokan",
    "America/Virgin": "America/St_Thomas",
    "Antarctica/South_Pole": "Antarctica/McMurdo",
    "Atlantic/Jan_Mayen": "Arctic/Longyearbyen",
    "Etc/UCT": "UTC",
    "Etc/UTC": "UTC",
    "Etc/Universal": "UTC",
    "Etc/Zulu": "UTC",
    "Iceland": "Atlantic/Reykjavik",
    "Pacific/Ponape": "Pacific/Pohnpei",
    "Pacific/Truk": "Pacific/Chuuk",
    "Pacific/Yap": "Pacific/Chuuk",
    "UCT": "UTC",
    "Universal": "UTC",
    "Zulu": "UTC",
}
"""Old names whose link leads abroad, because clocks there agree; these lead home."""
